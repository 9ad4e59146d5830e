// The way of the fetch chunk to its capability: bound to the call in which an exchange begins, and refused after it.
import { callCapability } from "./bridge.ts";
import { callState } from "./call-state.ts";
import { makeCapabilityError } from "./error-text.ts";

/** One exchange, as the host tells it from others of the call. */
export interface FetchChannel {
  readonly id: number;
  /** Rejects as {@link callCapability} does. */
  ask(message: { readonly op: string; readonly [field: string]: unknown }): Promise<unknown>;
}

let lastSerial = -1;
let lastId = 0;

/** @throws CAPABILITY_DENIED where no call runs, or one that was not granted it */
export function openFetchChannel(): FetchChannel {
  const { active, header, serial } = callState;
  if (!active || header === undefined) {
    throw makeCapabilityError("CAPABILITY_DENIED", "fetch can be used only while its call runs");
  }
  let isGranted = false;
  for (let index = 0; index < header.granted.length; index += 1) isGranted ||= header.granted[index] === "fetch";
  if (!isGranted) {
    throw makeCapabilityError("CAPABILITY_DENIED", 'The capability "fetch" was not granted to this tool');
  }
  if (serial !== lastSerial) lastId = 0;
  lastSerial = serial;
  lastId += 1;
  return { id: lastId, ask: (message) => callCapability("fetch", message, serial) };
}
