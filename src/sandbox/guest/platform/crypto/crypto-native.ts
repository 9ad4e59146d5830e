// The primitives of `node:crypto`: hashes, HMACs, AES and ChaCha20 ciphers, random bytes, key derivation, and the `webcrypto` object. They
// take and return bytes only (Uint8Array). node-crypto.ts adds encodings, streams, options and Buffers. All functions except `pbkdf2` and
// `scrypt` are synchronous. They throw the errors that Node throws: TypeError, RangeError or Error, with Node's `code` where it has one.

import { fillRandom } from "./crypto.ts";
import { callWorker, callWorkerForBytes, deriveInWorker } from "./crypto-call.ts";
import type { Pbkdf2Options, ScryptOptions } from "./crypto-options.ts";

export { crypto as webcrypto, fillRandom, randomUUID } from "./crypto.ts";
export { type CipherOptions, type NativeCipher, openCipher } from "./crypto-cipher.ts";
export { type NativeHash, openHash, openHmac } from "./crypto-hash.ts";

const MAX_RANDOM_RANGE = 2 ** 48;

export function randomBytes(size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  fillRandom(bytes);
  return bytes;
}

/** Returns a uniformly distributed integer from `min` (inclusive) to `max` (exclusive). */
export function randomInt(min: number, max: number): number {
  const range = max - min;
  if (!(range > 0 && range <= MAX_RANDOM_RANGE)) {
    throw new RangeError(`The range of a random integer is 1 to ${MAX_RANDOM_RANGE}, got ${range}`);
  }
  // Numbers beyond the last whole range are rejected, because they would make the first results more likely.
  const limit = MAX_RANDOM_RANGE - (MAX_RANDOM_RANGE % range);
  for (;;) {
    let number = 0;
    for (const byte of randomBytes(6)) number = number * 256 + byte;
    if (number < limit) return min + (number % range);
  }
}

/** Takes the same time regardless of where the inputs differ. */
export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) throw new RangeError("Input buffers must have the same byte length");
  let difference = 0;
  for (let index = 0; index < a.length; index += 1) difference |= (a[index] as number) ^ (b[index] as number);
  return difference === 0;
}

/** @throws {Error} if it would take too long, because it cannot be interrupted */
export function pbkdf2({ password, salt, iterations, length, digest }: Pbkdf2Options): Promise<Uint8Array> {
  return deriveInWorker("pbkdf2", [digest, iterations, length], [password, salt]);
}

/** @throws {Error} if it would take too long or use too much memory */
export function scrypt({ password, salt, length, N, r, p }: ScryptOptions): Promise<Uint8Array> {
  return deriveInWorker("scrypt", [N, r, p, length], [password, salt]);
}

/** A platform module of its own, because few tools need it. */
declare function require(name: "./crypto-derive.ts"): typeof import("./crypto-derive.ts");

export function pbkdf2Sync(options: Pbkdf2Options): Uint8Array {
  return require("./crypto-derive.ts").pbkdf2Sync(options);
}

export function scryptSync(options: ScryptOptions): Uint8Array {
  return require("./crypto-derive.ts").scryptSync(options);
}

export interface HkdfOptions {
  readonly digest: string;
  readonly key: Uint8Array;
  readonly salt: Uint8Array;
  readonly info: Uint8Array;
  readonly length: number;
}

export function hkdf({ digest, key, salt, info, length }: HkdfOptions): Uint8Array {
  return callWorkerForBytes("hkdf", [digest, length], [key, salt, info]);
}

export const getHashes = (): string[] => callWorker("hashes", [], []) as string[];
export const getCiphers = (): string[] => callWorker("ciphers", [], []) as string[];
