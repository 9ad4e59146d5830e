// Key derivation of node:crypto: PBKDF2, scrypt and HKDF.
import { checkRange, checkString, nodeError } from "../shared/node-error.ts";
import {
  pbkdf2 as derivePbkdf2,
  pbkdf2Sync as derivePbkdf2Sync,
  scrypt as deriveScrypt,
  scryptSync as deriveScryptSync,
  hkdf as hkdfBytes,
} from "./crypto-native.ts";
import { type Data, encode, settle } from "./node-crypto-data.ts";
import { keyBytes } from "./node-keys.ts";
import { MAX_RANDOM_BYTES } from "./node-random.ts";

type Pbkdf2Arguments = [password: Data, salt: Data, iterations: number, length: number, digest: string];

function pbkdf2Options(
  ...[password, salt, iterations, length, digest]: Pbkdf2Arguments
): Parameters<typeof derivePbkdf2>[0] {
  checkString(digest, "digest");
  checkRange(iterations, "iterations", 1, MAX_RANDOM_BYTES);
  checkRange(length, "keylen", 0, MAX_RANDOM_BYTES);
  return { password: keyBytes(password, "password"), salt: keyBytes(salt, "salt"), iterations, length, digest };
}

export function pbkdf2(...args: [...Pbkdf2Arguments, callback: unknown]): void {
  const callback = args.pop();
  settle(derivePbkdf2(pbkdf2Options(...(args as unknown as Pbkdf2Arguments))), callback);
}

export const pbkdf2Sync = (...args: Pbkdf2Arguments): unknown => encode(derivePbkdf2Sync(pbkdf2Options(...args)));

interface ScryptSettings {
  readonly N?: number;
  readonly cost?: number;
  readonly r?: number;
  readonly blockSize?: number;
  readonly p?: number;
  readonly parallelization?: number;
}

const isPowerOfTwo = (value: number): boolean => Number.isInteger(value) && value > 1 && Math.log2(value) % 1 === 0;

function scryptOptions(
  password: Data,
  salt: Data,
  length: number,
  given: ScryptSettings = {},
): Parameters<typeof deriveScrypt>[0] {
  const { N = given.cost ?? 16_384, r = given.blockSize ?? 8, p = given.parallelization ?? 1 } = given;
  checkRange(length, "keylen", 0, MAX_RANDOM_BYTES);
  if (!isPowerOfTwo(N) || !(r >= 1) || !(p >= 1))
    throw nodeError(RangeError, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params");
  return { password: keyBytes(password, "password"), salt: keyBytes(salt, "salt"), length, N, r, p };
}

export function scrypt(password: Data, salt: Data, length: number, ...rest: readonly unknown[]): void {
  const given = rest.length > 1 ? (rest[0] as ScryptSettings) : undefined;
  settle(deriveScrypt(scryptOptions(password, salt, length, given)), rest.at(-1));
}

export const scryptSync = (password: Data, salt: Data, length: number, given?: ScryptSettings): unknown =>
  encode(deriveScryptSync(scryptOptions(password, salt, length, given)));

export function hkdfSync(digest: string, key: Data, salt: Data, info: Data, length: number): ArrayBuffer {
  const bytes = { key: keyBytes(key, "ikm"), salt: keyBytes(salt, "salt"), info: keyBytes(info, "info") };
  const made = hkdfBytes({ digest, length, ...bytes });
  return made.slice().buffer as ArrayBuffer;
}
