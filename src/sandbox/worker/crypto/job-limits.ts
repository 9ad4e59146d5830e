// Checks the parameters of a guest's cryptography jobs before they start. Only the end of the process stops a running
// OpenSSL operation, so its time and memory must be bounded in advance.

import { CryptoError } from "./errors.ts";
import { checkKey, MAX_ENCRYPTED_KEY_BYTES } from "./key-material.ts";
import type { SubtleRequest } from "./read-request.ts";

type Members = { readonly [member: string]: unknown };

/** Maximum size of a new RSA key in bits. 4096 bits take 0.3 to 5 s, and the time grows with the fourth power. */
const MAX_NEW_MODULUS_BITS = 4_096;
/** Maximum size of a new secret key or of derived bits: 1 MiB. */
const MAX_DERIVED_BITS = 8 * 1024 * 1024;
/** Maximum number of HMAC rounds: about a second. OWASP recommends up to 1,400,000 (for SHA-1). */
const MAX_PBKDF2_ROUNDS = 4_000_000;
/** Limits of Argon2: memory in KiB, and memory times passes. The memory is outside of the isolate's limit. */
const MAX_ARGON2_KIB = 64 * 1024;
const MAX_ARGON2_WORK_KIB = 4 * MAX_ARGON2_KIB;
const MAX_ARGON2_LANES = 16;
/** Limits of checking a number for primality. 3072 bits take 2 to 4 s if the number is a prime, with any number of checks up to this. */
const MAX_PRIME_BITS = 3_072;
const MAX_PRIME_CHECKS = 128;
/** Limits of scrypt: memory (`128 * N * r`), and memory times `p`. The memory limit is Node's default. */
const MAX_SCRYPT_BYTES = 32 * 1024 * 1024;
const MAX_SCRYPT_WORK = 4 * MAX_SCRYPT_BYTES;
/** Maximum size of a key as DER, and of a part of a key as base64. An RSA key of 8192 bits takes 4.7 KiB, an ML-DSA-87 key 5 KiB. */
const MAX_ENCODED_KEY_BYTES = 8 * 1024;
const SHORTEST_DIGEST_BITS = 160;
const DIGEST_BITS = /^sha3?-(256|384|512)$/i;

const reject = (message: string): never => {
  throw new CryptoError("OperationError", message);
};

function checkMaximum(what: string, value: unknown, max: number): void {
  if (typeof value === "number" && value > max) reject(`${what} must be at most ${max}, got ${value}`);
}

const membersOf = (algorithm: unknown): Members =>
  typeof algorithm === "object" && algorithm !== null ? (algorithm as Members) : {};

/** Returns the derived length in bits. For a derived key without a length this is the largest block size of a hash. */
function derivedBits({ method, args }: SubtleRequest): number {
  if (method !== "deriveKey") return typeof args[2] === "number" ? args[2] : 0;
  const { length } = membersOf(args[2]);
  return typeof length === "number" ? length : 1_024;
}

function digestBytes(hash: unknown): number {
  const name = typeof hash === "string" ? hash : String(membersOf(hash).name);
  return Number(DIGEST_BITS.exec(name)?.[1] ?? SHORTEST_DIGEST_BITS) / 8;
}

function checkDerivation(request: SubtleRequest): void {
  const algorithm = membersOf(request.args[0]);
  const bits = derivedBits(request);
  checkMaximum("The derived length in bits", bits, MAX_DERIVED_BITS);
  if (typeof algorithm.iterations === "number")
    checkPbkdf2(algorithm.iterations, bits / 8, digestBytes(algorithm.hash));
  checkArgon2(algorithm);
}

/** @throws {CryptoError} OperationError if the derivation would need too much memory or time */
export function checkArgon2({ memory, passes, parallelism }: Members): void {
  checkMaximum("Argon2's memory in KiB", memory, MAX_ARGON2_KIB);
  checkMaximum("Argon2's parallelism", parallelism, MAX_ARGON2_LANES);
  if (typeof memory === "number" && typeof passes === "number" && memory * passes > MAX_ARGON2_WORK_KIB) {
    reject(`Argon2's memory times its passes must be at most ${MAX_ARGON2_WORK_KIB} KiB`);
  }
}

/** @throws {CryptoError} OperationError if the check would take too long */
export function checkPrimality(bits: number, checks: number): void {
  const instead = "Use checkPrimeSync(), which a tool computes itself";
  if (bits > MAX_PRIME_BITS) reject(`A prime must have at most ${MAX_PRIME_BITS} bits, got ${bits}. ${instead}`);
  if (checks > MAX_PRIME_CHECKS) reject(`checks must be at most ${MAX_PRIME_CHECKS}, got ${checks}. ${instead}`);
}

/** @throws {CryptoError} OperationError if the derivation would take too many rounds */
export function checkPbkdf2(
  iterations: number,
  bytes: number,
  digestBytes: number,
  maxRounds = MAX_PBKDF2_ROUNDS,
): void {
  const rounds = iterations * Math.max(1, Math.ceil(bytes / digestBytes));
  if (rounds > maxRounds) reject(`PBKDF2 must take at most ${maxRounds} rounds, got ${rounds}`);
}

/** @throws {CryptoError} OperationError if the derivation would need too much memory or time */
export function checkScrypt(N: number, r: number, p: number, maxWork = MAX_SCRYPT_WORK): void {
  const bytes = 128 * N * r;
  if (bytes > MAX_SCRYPT_BYTES) reject(`scrypt must use at most ${MAX_SCRYPT_BYTES} bytes of memory (128 * N * r)`);
  if (bytes * p > maxWork) reject(`scrypt must process at most ${maxWork} bytes (128 * N * r * p)`);
}

/** @throws {CryptoError} OperationError if the request would use a thread or the worker's memory for too long */
export function checkSubtleRequest(request: SubtleRequest): void {
  const { method, args } = request;
  for (const argument of args) {
    const { outputLength, modulusLength, length } = membersOf(argument);
    checkMaximum("The output length in bits", outputLength, MAX_DERIVED_BITS);
    checkMaximum("The modulus length of a new RSA key in bits", modulusLength, MAX_NEW_MODULUS_BITS);
    checkMaximum("The key length in bits", length, MAX_DERIVED_BITS);
  }
  if (method === "deriveBits" || method === "deriveKey") checkDerivation(request);
  if (method !== "importKey" && method !== "unwrapKey") return;
  if (!(args[1] instanceof Uint8Array)) {
    const { k, ...parts } = membersOf(args[1]);
    for (const part of Object.values(parts)) {
      if (typeof part === "string") checkMaximum("The length of a part of a key", part.length, MAX_ENCODED_KEY_BYTES);
    }
    return;
  }
  const isEncoded = args[0] === "spki" || args[0] === "pkcs8";
  const maxBytes = method === "importKey" ? MAX_ENCODED_KEY_BYTES : MAX_ENCRYPTED_KEY_BYTES;
  checkMaximum("The size of a key in bytes", args[1].byteLength, isEncoded ? maxBytes : MAX_DERIVED_BITS / 8);
  if (isEncoded && method === "importKey") checkKey(args[1], false);
}
