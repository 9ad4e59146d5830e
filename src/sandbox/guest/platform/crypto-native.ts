// What `node:crypto` is built on: hashes, HMACs, ciphers of AES and ChaCha20, random bytes, key derivation, and the `webcrypto` object. Bytes
// only (Uint8Array in, Uint8Array out); encodings, streams, options and Buffers are the module's own. Everything is synchronous but for
// `pbkdf2` and `scrypt`, and throws what Node throws: TypeError, RangeError or Error, with Node's `code` where there is one.
//
// openHash(algorithm, { outputLength }) · openHmac(algorithm, key) → { update(bytes), digest(), copy() }
// openCipher({ algorithm, key, iv, decrypt, authTagLength }) → { update, final, setAAD, getAuthTag, setAuthTag, setAutoPadding }
// fillRandom(target) · randomBytes(size) · randomInt(min, max) · randomUUID() · timingSafeEqual(a, b)
// pbkdf2({ … }) · scrypt({ … }) → a promise · pbkdf2Sync({ … }) · scryptSync({ … }) · hkdf({ … }) · getHashes() · getCiphers() · webcrypto

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

/** A whole number from `min` up to, but not including, `max`: each as likely as the others. */
export function randomInt(min: number, max: number): number {
  const range = max - min;
  if (!(range > 0 && range <= MAX_RANDOM_RANGE)) {
    throw new RangeError(`The range of a random integer is 1 to ${MAX_RANDOM_RANGE}, got ${range}`);
  }
  // What lies beyond the last whole range would make the first numbers likelier.
  const limit = MAX_RANDOM_RANGE - (MAX_RANDOM_RANGE % range);
  for (;;) {
    let number = 0;
    for (const byte of randomBytes(6)) number = number * 256 + byte;
    if (number < limit) return min + (number % range);
  }
}

/** Takes the same time wherever they differ. */
export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) throw new RangeError("Input buffers must have the same byte length");
  let difference = 0;
  for (let index = 0; index < a.length; index += 1) difference |= (a[index] as number) ^ (b[index] as number);
  return difference === 0;
}

/** @throws Error where it would take too long: it cannot be stopped */
export function pbkdf2({ password, salt, iterations, length, digest }: Pbkdf2Options): Promise<Uint8Array> {
  return deriveInWorker("pbkdf2", [digest, iterations, length], [password, salt]);
}

/** @throws Error where it would take too long, or too much memory */
export function scrypt({ password, salt, length, N, r, p }: ScryptOptions): Promise<Uint8Array> {
  return deriveInWorker("scrypt", [N, r, p, length], [password, salt]);
}

/** A chunk of its own: few need it. */
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
