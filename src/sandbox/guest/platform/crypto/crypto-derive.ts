// Synchronous Argon2, PBKDF2 and scrypt. They run in the guest, where they can be interrupted and their CPU time counts. This takes five to ten
// times as long as in the worker, but there they would block all other work.
import { argon2d, argon2i, argon2id } from "@noble/hashes/argon2.js";
import { md5, ripemd160, sha1 } from "@noble/hashes/legacy.js";
import { pbkdf2 } from "@noble/hashes/pbkdf2.js";
import { scrypt } from "@noble/hashes/scrypt.js";
import { sha224, sha256, sha384, sha512 } from "@noble/hashes/sha2.js";
import { sha3_256, sha3_384, sha3_512 } from "@noble/hashes/sha3.js";
import type { Argon2Options, Pbkdf2Options, ScryptOptions } from "./crypto-options.ts";

const HASHES: ReadonlyMap<string, typeof sha256 | typeof sha1 | typeof sha512> = new Map(
  Object.entries({
    md5,
    ripemd160,
    sha1,
    sha224,
    sha256,
    sha384,
    sha512,
    "sha3-256": sha3_256,
    "sha3-384": sha3_384,
    "sha3-512": sha3_512,
  }),
) as never;

/** @throws {TypeError} for an unsupported digest */
export function pbkdf2Sync({ password, salt, iterations, length, digest }: Pbkdf2Options): Uint8Array {
  const hash = HASHES.get(digest.toLowerCase().replace(/^(?:rsa-)?sha-?(?=\d{3}$|1$)/, "sha"));
  if (hash === undefined) {
    throw Object.assign(new TypeError(`Invalid digest: ${digest}`), { code: "ERR_CRYPTO_INVALID_DIGEST" });
  }
  return pbkdf2(hash, password, salt, { c: iterations, dkLen: length });
}

export function scryptSync({ password, salt, length, N, r, p }: ScryptOptions): Uint8Array {
  return scrypt(password, salt, { N, r, p, dkLen: length, maxmem: 2 ** 30 });
}

const ARGON2 = { argon2d, argon2i, argon2id };

export function argon2Sync({
  algorithm,
  message,
  nonce,
  secret,
  associatedData,
  ...numbers
}: Argon2Options): Uint8Array {
  const { parallelism, tagLength, memory, passes } = numbers;
  return ARGON2[algorithm](message, nonce, {
    key: secret,
    personalization: associatedData,
    p: parallelism,
    dkLen: tagLength,
    m: memory,
    t: passes,
    maxmem: 2 ** 32 - 1,
  });
}
