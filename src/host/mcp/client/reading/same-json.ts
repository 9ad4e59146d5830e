// Compares two JSON values over several turns of the event loop: both may be as large as a message.
import { runTimeSliced } from "../../../util/time-slicing.ts";

/** Values compared between two readings of the clock. */
const BATCH_VALUES = 500;

type JsonObject = { readonly [key: string]: unknown };

/** A pair of containers of one kind and size, and how far they have been compared. */
interface Frame {
  readonly one: readonly unknown[] | JsonObject;
  readonly other: readonly unknown[] | JsonObject;
  /** Undefined for arrays. */
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  at: number;
}

const isContainer = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Returns the number of keys of an object; 0 for any other value. Listing the keys of a large object takes milliseconds. */
export const countKeys = (value: unknown): number =>
  isContainer(value) && !Array.isArray(value) ? Object.keys(value).length : 0;

/**
 * Compares two values without their members. Returns the frame for comparing the members of two containers, or whether the values are equal.
 * @param otherKeys number of keys of `other`, if the caller has counted them
 */
function open(one: unknown, other: unknown, otherKeys?: number): Frame | boolean {
  if (!isContainer(one) || !isContainer(other)) return Object.is(one, other) || (one === 0 && other === 0);
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && { one, other, keys: undefined, length: one.length, at: 0 };
  }
  const keys = Object.keys(one);
  if (keys.length !== (otherKeys ?? countKeys(other))) return false;
  return { one: one as JsonObject, other: other as JsonObject, keys, length: keys.length, at: 0 };
}

/** Returns the next pair in a frame; undefined if `other` lacks the member. */
function nextPair(frame: Frame): readonly [unknown, unknown] | undefined {
  const index = frame.at;
  frame.at += 1;
  const key = frame.keys?.[index];
  if (key === undefined) return [(frame.one as readonly unknown[])[index], (frame.other as readonly unknown[])[index]];
  if (!Object.hasOwn(frame.other, key)) return undefined;
  return [(frame.one as JsonObject)[key], (frame.other as JsonObject)[key]];
}

/**
 * Returns whether two JSON values are equal. The order of an object's members is ignored. If the signal aborts, rejects with its reason.
 * @param otherKeys `countKeys(other)`, for a caller that compares several values with the same one
 */
export async function isSameJson(
  one: unknown,
  other: unknown,
  signal: AbortSignal,
  otherKeys?: number,
): Promise<boolean> {
  const first = open(one, other, otherKeys);
  if (typeof first === "boolean") return first;
  const frames = [first];
  let isSame = true;
  await runTimeSliced(() => {
    for (let count = 0; count < BATCH_VALUES; count += 1) {
      const frame = frames.at(-1);
      if (frame === undefined) return true;
      if (frame.at >= frame.length) {
        frames.pop();
        continue;
      }
      const pair = nextPair(frame);
      const next = pair === undefined ? false : open(...pair);
      if (next === false) {
        isSame = false;
        return true;
      }
      if (next !== true) frames.push(next);
    }
    return false;
  }, signal);
  return isSame;
}
