// node:crypto over the worker's cryptography. Each area, from hashes to certificates, is a file of its own; this one collects their members.

import { callable, constructible } from "../shared/callable-classes.ts";
import { nameClasses } from "../shared/class-names.ts";
import { nodeError } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { timingSafeEqual as equalBytes, getCiphers, getHashes, randomUUID, webcrypto } from "./crypto-native.ts";
import { argon2, argon2Sync } from "./node-argon2.ts";
import { X509Certificate } from "./node-certificate.ts";
import { Cipheriv, createCipheriv, createDecipheriv, Decipheriv, getCipherInfo } from "./node-ciphers.ts";
import { cryptoConstants } from "./node-crypto-constants.ts";
import { type Callback, type Data, settle } from "./node-crypto-data.ts";
import { hkdfSync, pbkdf2, pbkdf2Sync, scrypt, scryptSync } from "./node-derivation.ts";
import { createHash, createHmac, Hash, Hmac, hash } from "./node-hashes.ts";
import {
  createDiffieHellman,
  createECDH,
  DiffieHellmanGroup,
  decapsulate,
  diffieHellman,
  ECDH,
  encapsulate,
  getCurves,
  getDiffieHellman,
} from "./node-key-agreement.ts";
import { generateKey, generateKeyPair, generateKeyPairSync, generateKeySync } from "./node-key-pairs.ts";
import { createPrivateKey, createPublicKey, createSecretKey, KeyObject, keyBytes } from "./node-keys.ts";
import { checkPrime, checkPrimeSync, generatePrime, generatePrimeSync } from "./node-primes.ts";
import { randomBytes, randomFill, randomFillSync, randomInt, randomUUIDv7 } from "./node-random.ts";
import {
  createSign,
  createVerify,
  privateDecrypt,
  privateEncrypt,
  publicDecrypt,
  publicEncrypt,
  Sign,
  sign,
  Verify,
  verify,
} from "./node-signatures.ts";

function timingSafeEqual(a: Data, b: Data): boolean {
  const [x, y] = [keyBytes(a, "buf1"), keyBytes(b, "buf2")];
  if (x.length !== y.length) {
    throw nodeError(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
  }
  return equalBytes(x, y);
}

const crypto = {
  Cipheriv,
  Decipheriv,
  DiffieHellmanGroup: callable(DiffieHellmanGroup),
  ECDH: callable(ECDH),
  Hash,
  Hmac,
  KeyObject,
  Sign,
  Verify,
  X509Certificate,
  argon2,
  argon2Sync,
  checkPrime,
  checkPrimeSync,
  constants: cryptoConstants,
  createCipheriv: constructible("createCipheriv", createCipheriv),
  createDecipheriv: constructible("createDecipheriv", createDecipheriv),
  createHash,
  createDiffieHellman,
  createDiffieHellmanGroup: constructible("createDiffieHellmanGroup", getDiffieHellman),
  createECDH: constructible("createECDH", createECDH),
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey: constructible("createSecretKey", createSecretKey),
  createSign: constructible("createSign", createSign),
  createVerify: constructible("createVerify", createVerify),
  decapsulate,
  diffieHellman,
  encapsulate,
  generateKey,
  generateKeyPair,
  generateKeyPairSync,
  generateKeySync,
  generatePrime,
  generatePrimeSync,
  getCipherInfo,
  getCiphers,
  getCurves,
  getDiffieHellman,
  getFips: (): number => 0,
  getHashes,
  getRandomValues: (target: ArrayBufferView): unknown => webcrypto.getRandomValues(target as never),
  hash,
  hkdf(digest: string, key: Data, salt: Data, info: Data, length: number, callback: unknown): void {
    settle(
      Promise.resolve().then(() => new Uint8Array(hkdfSync(digest, key, salt, info, length))),
      (error: unknown, value?: Uint8Array) => (callback as Callback)(error, value?.buffer),
    );
  },
  hkdfSync,
  pbkdf2,
  pbkdf2Sync,
  privateDecrypt,
  privateEncrypt,
  prng: randomBytes,
  pseudoRandomBytes: randomBytes,
  publicDecrypt,
  publicEncrypt,
  randomBytes,
  randomFill,
  randomFillSync,
  randomInt,
  randomUUID: (): string => randomUUID(),
  randomUUIDv7,
  scrypt,
  scryptSync,
  secureHeapUsed: () => ({ total: 0, used: 0, utilization: Number.NaN, min: 2 }),
  sign,
  subtle: webcrypto.subtle,
  timingSafeEqual,
  verify,
  webcrypto,
};

nameClasses({ Cipheriv, Decipheriv, Hash, Hmac, KeyObject, X509Certificate });

addUnsupported(
  crypto,
  "crypto",
  "use WebCrypto (crypto.subtle) if it has the algorithm",
  "Certificate DiffieHellman createMac getMacs parsePKCS12 rng setEngine setFips",
);

export const builtins = { crypto };
