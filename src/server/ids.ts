// Ids of the server's records: a prefix that names the kind, the time, and 80 random bits. Ids of one kind sort by time.
import { randomFillSync } from "node:crypto";

export type IdKind =
  | "approval"
  | "session"
  | "call"
  | "key"
  | "schedule"
  | "webhook"
  | "delivery"
  | "trigger"
  | "request";

/** Crockford's base 32 in lower case: no letters that look like digits. */
const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const TIME_LENGTH = 10;
const RANDOM_BYTES = 10;

function encode(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += DIGITS[(value >> bits) & 31];
    }
    value &= (1 << bits) - 1;
  }
  return text;
}

function encodeTime(ms: number): string {
  let left = ms;
  let text = "";
  for (let index = 0; index < TIME_LENGTH; index += 1) {
    text = `${DIGITS[left % 32]}${text}`;
    left = Math.floor(left / 32);
  }
  return text;
}

/** Returns a text that sorts before all ids of this time and later, and after all earlier ones. @param from ms since 1970 */
export const firstIdAt = (kind: IdKind, from: number): string => `${kind}_${encodeTime(Math.max(0, Math.floor(from)))}`;

/** Random bytes of the next ids. Each request for random bytes costs some µs, however few they are. */
const pool = Buffer.alloc(RANDOM_BYTES * 400);
let used = pool.length;

function nextRandom(): Uint8Array {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += RANDOM_BYTES;
  return pool.subarray(used - RANDOM_BYTES, used);
}

/** @param now ms since 1970 */
export const createId = (kind: IdKind, now: number = Date.now()): string =>
  `${kind}_${encodeTime(now)}${encode(nextRandom())}`;

/** Returns the id of the outermost call: a nested call has the id of its caller and a number. */
export const rootOf = (callId: string): string => callId.split(".", 1)[0] as string;

/** Returns the id of the call that made a nested one; undefined for an outermost call. */
export const parentOf = (callId: string): string | undefined =>
  callId.includes(".") ? callId.slice(0, callId.lastIndexOf(".")) : undefined;
