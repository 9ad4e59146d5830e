// Random values of node:crypto: bytes, integers and UUIDs.
import {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkObject,
  checkRange,
  invalidArgument,
  outOfRange,
} from "../shared/node-error.ts";
import { fillRandom, randomBytes as randomNative, randomInt as randomNumber, randomUUID } from "./crypto-native.ts";
import { encode, maybeLater } from "./node-crypto-data.ts";
import { keyBytes } from "./node-keys.ts";

export const MAX_RANDOM_BYTES = 2 ** 31 - 1;

export const MIN_INT32 = -(2 ** 31);

export function randomBytes(size: number, callback?: unknown): unknown {
  checkRange(size, "size", 0, MAX_RANDOM_BYTES);
  return maybeLater(callback, () => encode(randomNative(size)));
}

/** @param offset number of elements of a typed array, as `size` */
export function randomFillSync(target: ArrayBufferView | ArrayBuffer, offset: unknown = 0, size?: unknown): unknown {
  const bytes = keyBytes(target, "buf");
  const { BYTES_PER_ELEMENT: width = 1 } = target as { readonly BYTES_PER_ELEMENT?: number };
  checkNumber(offset, "offset");
  const from = offset * width;
  checkRange(from, "offset", 0, bytes.length);
  if (size === undefined) fillRandom(bytes.subarray(from));
  else {
    checkNumber(size, "size");
    const length = size * width;
    checkRange(length, "size", 0, MAX_RANDOM_BYTES);
    if (from + length > bytes.length) throw outOfRange("size + offset", `<= ${bytes.length}`, from + length);
    fillRandom(bytes.subarray(from, from + length));
  }
  return target;
}

export function randomFill(target: ArrayBufferView, ...rest: unknown[]): void {
  const callback = rest.pop();
  checkFunction(callback, "callback");
  maybeLater(callback, () => randomFillSync(target, ...rest));
}

export function randomInt(...args: readonly unknown[]): unknown {
  const callback = typeof args.at(-1) === "function" ? args.at(-1) : undefined;
  const numbers = args.filter((one) => typeof one === "number");
  const [min, max] = numbers.length > 1 ? (numbers as [number, number]) : [0, numbers[0] as number];
  if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max)) throw invalidArgument("max", "a safe integer", args[0]);
  if (!(max > min)) throw outOfRange("max", `greater than the value of "min" (${min})`, max);
  return maybeLater(callback, () => randomNumber(min, max));
}

/** Returns a UUID that starts with the time in milliseconds (RFC 9562). */
export function randomUUIDv7(options: unknown = {}): string {
  checkObject(options, "options");
  const { disableEntropyCache = false } = options as { readonly disableEntropyCache?: unknown };
  checkBoolean(disableEntropyCache, "options.disableEntropyCache");
  const time = Date.now().toString(16).padStart(12, "0");
  const random = randomUUID();
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}
