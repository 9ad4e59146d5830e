// The way of the fetch chunk to its capability: bound to the call in which an exchange begins, and refused after it.
import { callCapability } from "./bridge.ts";
import { callState } from "./call-state.ts";
import { makeCapabilityError, notGranted } from "./error-text.ts";

/** One exchange, as the host tells it from others of the call. */
export interface FetchChannel {
  readonly id: number;
  /** @throws CAPABILITY_DENIED once the call is over: what was asked in it is not answered any more */
  check(): void;
  /** Rejects as {@link callCapability} does. */
  ask(message: { readonly op: string; readonly [field: string]: unknown }): Promise<unknown>;
}

function checkCall(serial: number): void {
  const { active, header } = callState;
  if (active && header !== undefined && serial === callState.serial) return;
  throw makeCapabilityError("CAPABILITY_DENIED", "fetch can be used only while its call runs");
}

let lastSerial = -1;
let lastId = 0;

/** @throws CAPABILITY_DENIED where no call runs, or one that was not granted it */
export function openFetchChannel(): FetchChannel {
  const { header, serial } = callState;
  checkCall(serial);
  let isGranted = false;
  const granted = header?.granted ?? [];
  for (let index = 0; index < granted.length; index += 1) isGranted ||= granted[index] === "fetch";
  if (!isGranted) {
    throw makeCapabilityError("CAPABILITY_DENIED", notGranted("fetch", "fetch"), "fetch");
  }
  if (serial !== lastSerial) lastId = 0;
  lastSerial = serial;
  lastId += 1;
  return { id: lastId, check: () => checkCall(serial), ask: (message) => callCapability("fetch", message, serial) };
}
