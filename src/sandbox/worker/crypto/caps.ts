// What a guest may ask of OpenSSL: a job's time is bounded before it begins, since nothing stops it afterwards but the process's end.

import { checkKey, MAX_ENCRYPTED_KEY_BYTES } from "./key-material.ts";
import type { SubtleRequest } from "./read-request.ts";
import { CryptoRefusal } from "./refusal.ts";

type Members = { readonly [member: string]: unknown };

/** Bits of an RSA key to be made: 4096 take 0.3 to 5 s, and the time grows with the fourth power. */
const MAX_NEW_MODULUS_BITS = 4_096;
/** Of a secret key to be made or derived, and of what is derived: a MiB. */
const MAX_DERIVED_BITS = 8 * 1024 * 1024;
/** Rounds of one HMAC: OWASP asks for 1,400,000 at most (SHA-1); about a second. */
const MAX_PBKDF2_ROUNDS = 4_000_000;
/** Argon2: memory in KiB, and that many times the passes over it. The memory is the process's, not the isolate's. */
const MAX_ARGON2_KIB = 64 * 1024;
const MAX_ARGON2_WORK_KIB = 4 * MAX_ARGON2_KIB;
const MAX_ARGON2_LANES = 16;
/** Of scrypt, `128 * N * r`; the work is that many times `p`. Node's own default for the memory. */
const MAX_SCRYPT_BYTES = 32 * 1024 * 1024;
const MAX_SCRYPT_WORK = 4 * MAX_SCRYPT_BYTES;
/** A key as DER, and a part of one as base64: an RSA key of 8192 bits takes 4.7 KiB, one of ML-DSA-87 5. */
const MAX_ENCODED_KEY_BYTES = 8 * 1024;
const SHORTEST_DIGEST_BITS = 160;
const DIGEST_BITS = /^sha3?-(256|384|512)$/i;

const refuse = (message: string): never => {
  throw new CryptoRefusal("OperationError", message);
};

function capNumber(what: string, value: unknown, max: number): void {
  if (typeof value === "number" && value > max) refuse(`${what} may be ${max} at most here`);
}

const membersOf = (algorithm: unknown): Members =>
  typeof algorithm === "object" && algorithm !== null ? (algorithm as Members) : {};

/** In bits. Of a key to be derived: as long as its algorithm says, or at most a hash's block. */
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
  capNumber("A derived length in bits", bits, MAX_DERIVED_BITS);
  if (typeof algorithm.iterations === "number")
    checkPbkdf2(algorithm.iterations, bits / 8, digestBytes(algorithm.hash));
  const { memory, passes, parallelism } = algorithm;
  capNumber("Argon2's memory in KiB", memory, MAX_ARGON2_KIB);
  capNumber("Argon2's parallelism", parallelism, MAX_ARGON2_LANES);
  if (typeof memory === "number" && typeof passes === "number" && memory * passes > MAX_ARGON2_WORK_KIB) {
    refuse(`Argon2's memory times its passes may be ${MAX_ARGON2_WORK_KIB} KiB at most here`);
  }
}

/** @throws {CryptoRefusal} */
export function checkPbkdf2(
  iterations: number,
  bytes: number,
  digestBytes: number,
  maxRounds = MAX_PBKDF2_ROUNDS,
): void {
  const rounds = iterations * Math.max(1, Math.ceil(bytes / digestBytes));
  if (rounds > maxRounds) refuse(`PBKDF2 may take ${maxRounds} rounds at most here, got ${rounds}`);
}

/** @throws {CryptoRefusal} */
export function checkScrypt(N: number, r: number, p: number, maxWork = MAX_SCRYPT_WORK): void {
  const bytes = 128 * N * r;
  if (bytes > MAX_SCRYPT_BYTES) refuse(`scrypt may take ${MAX_SCRYPT_BYTES} bytes of memory here (128 * N * r)`);
  if (bytes * p > maxWork) refuse(`scrypt may do ${maxWork} bytes of work here (128 * N * r * p)`);
}

/** @throws {CryptoRefusal} OperationError for what would hold a thread, or the worker's memory, for too long */
export function checkSubtleRequest(request: SubtleRequest): void {
  const { method, args } = request;
  for (const argument of args) {
    const { outputLength, modulusLength, length } = membersOf(argument);
    capNumber("An output's length in bits", outputLength, MAX_DERIVED_BITS);
    capNumber("A new RSA key's modulus length in bits", modulusLength, MAX_NEW_MODULUS_BITS);
    capNumber("A key's length in bits", length, MAX_DERIVED_BITS);
  }
  if (method === "deriveBits" || method === "deriveKey") checkDerivation(request);
  if (method !== "importKey" && method !== "unwrapKey") return;
  if (!(args[1] instanceof Uint8Array)) {
    const { k, ...parts } = membersOf(args[1]);
    for (const part of Object.values(parts)) {
      if (typeof part === "string") capNumber("A part of a key", part.length, MAX_ENCODED_KEY_BYTES);
    }
    return;
  }
  const isEncoded = args[0] === "spki" || args[0] === "pkcs8";
  const most = method === "importKey" ? MAX_ENCODED_KEY_BYTES : MAX_ENCRYPTED_KEY_BYTES;
  capNumber("A key's bytes", args[1].byteLength, isEncoded ? most : MAX_DERIVED_BITS / 8);
  if (isEncoded && method === "importKey") checkKey(args[1], false);
}
