// Connects the platform module for fetch to its capability. A channel belongs to the call that opened it and is unusable after that call.
import { callCapability } from "./bridge.ts";
import { callState } from "./call-state.ts";
import { createCapabilityError, notGranted } from "./error-text.ts";

/** Channel for one HTTP exchange. The host identifies exchanges of a call by `id`. */
export interface FetchChannel {
  readonly id: number;
  /** @throws {Error} CAPABILITY_DENIED if the call has ended, since its requests get no response any more */
  check(): void;
  /** Rejects as {@link callCapability} does. */
  request(message: { readonly op: string; readonly [field: string]: unknown }): Promise<unknown>;
}

function checkCall(serial: number): void {
  const { active, header } = callState;
  if (active && header !== undefined && serial === callState.serial) return;
  throw createCapabilityError("CAPABILITY_DENIED", "fetch can be used only while its call runs");
}

let lastSerial = -1;
let lastId = 0;

/**
 * Opens a channel for one exchange of the running call.
 * @throws {Error} CAPABILITY_DENIED if no call runs, or `fetch` is not granted to the tool
 */
export function openFetchChannel(): FetchChannel {
  const { header, serial } = callState;
  checkCall(serial);
  let isGranted = false;
  const granted = header?.granted ?? [];
  for (let index = 0; index < granted.length; index += 1) isGranted ||= granted[index] === "fetch";
  if (!isGranted) {
    throw createCapabilityError("CAPABILITY_DENIED", notGranted("fetch", "fetch"), "fetch");
  }
  if (serial !== lastSerial) lastId = 0;
  lastSerial = serial;
  lastId += 1;
  return { id: lastId, check: () => checkCall(serial), request: (message) => callCapability("fetch", message, serial) };
}
