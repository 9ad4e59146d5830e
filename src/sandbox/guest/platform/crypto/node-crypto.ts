// node:crypto over the worker's cryptography: hashes, HMACs, ciphers, random bytes, key derivation and webcrypto. Keys, signatures, key
// agreement and certificates are in separate files.

import { adoptable, callable } from "../shared/callable-classes.ts";
import { nameClasses } from "../shared/class-names.ts";
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkNumber,
  checkObject,
  checkRange,
  checkString,
  constructible,
  invalidArgument,
  nodeError,
  outOfRange,
} from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { Transform } from "../streams/node-stream.ts";
import { callWorker } from "./crypto-call.ts";
import {
  pbkdf2 as derivePbkdf2,
  pbkdf2Sync as derivePbkdf2Sync,
  scrypt as deriveScrypt,
  scryptSync as deriveScryptSync,
  timingSafeEqual as equalBytes,
  fillRandom,
  getCiphers,
  getHashes,
  hkdf as hkdfBytes,
  type NativeCipher,
  type NativeHash,
  openCipher,
  openHash,
  openHmac,
  randomBytes as randomNative,
  randomInt as randomNumber,
  randomUUID,
  webcrypto,
} from "./crypto-native.ts";
import { argon2, argon2Sync } from "./node-argon2.ts";
import { X509Certificate } from "./node-certificate.ts";
import { cryptoConstants } from "./node-crypto-constants.ts";
import { type Callback, type Data, encode, maybeLater, settle } from "./node-crypto-data.ts";
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
import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKey,
  generateKeyPair,
  generateKeyPairSync,
  generateKeySync,
  KeyObject,
  keyBytes,
} from "./node-keys.ts";
import { checkPrime, checkPrimeSync, generatePrime, generatePrimeSync } from "./node-primes.ts";
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

type Done = (error?: Error | null, data?: unknown) => void;

const toBytes = keyBytes;

/** A hash or an HMAC, used through update() and digest() or as a stream. */
class HashState extends adoptable(Transform) {
  readonly #native: NativeHash;
  /** The digest that the stream has emitted. As in Node, one call of digest() returns it again. */
  #flushed: Uint8Array<ArrayBuffer> | undefined;
  constructor(native: NativeHash, options?: object) {
    super(options);
    this.#native = native;
  }
  update(data: Data, encoding?: string): this {
    this.#native.update(toBytes(data, "data", encoding));
    return this;
  }
  digest(encoding?: string): unknown {
    const digest = this.#flushed ?? this.#native.digest();
    this.#flushed = undefined;
    return encode(digest, encoding);
  }
  copy(options?: { readonly outputLength?: number }): HashState {
    return new HashState(this.#native.copy(options?.outputLength));
  }
  override _transform(chunk: Data, encoding: string, done: Done): void {
    this.update(chunk, encoding);
    done();
  }
  override _flush(done: Done): void {
    this.#flushed = this.#native.digest();
    done(null, encode(this.#flushed.slice()));
  }
}

class HmacState extends HashState {}

type HashSettings = { readonly outputLength?: number } | undefined;
const hashArguments = (algorithm: string, options?: HashSettings): [NativeHash, HashSettings] => {
  checkString(algorithm, "algorithm");
  return [openHash(algorithm, options), options];
};
type HmacSettings = { readonly encoding?: string } | undefined;
const hmacArguments = (algorithm: string, key: Data, options?: HmacSettings): [NativeHash, HmacSettings] => {
  checkString(algorithm, "hmac");
  return [openHmac(algorithm, toBytes(key, "key", options?.encoding)), options];
};
const Hash = callable(HashState, { convert: hashArguments });
const Hmac = callable(HmacState, { convert: hmacArguments });

const createHash = (...args: Parameters<typeof hashArguments>): HashState => new HashState(...hashArguments(...args));
const createHmac = (...args: Parameters<typeof hmacArguments>): HmacState => new HmacState(...hmacArguments(...args));

function hash(algorithm: string, data: Data, given?: string | { readonly outputEncoding?: string }): unknown {
  const encoding = typeof given === "string" ? given : (given?.outputEncoding ?? "hex");
  return createHash(algorithm).update(data).digest(encoding);
}

interface CipherSettings {
  readonly authTagLength?: number;
}

class Cipher extends adoptable(Transform) {
  readonly #native: NativeCipher;
  constructor(native: NativeCipher, options?: object) {
    super(options);
    this.#native = native;
  }
  update(data: Data, inputEncoding?: string, outputEncoding?: string): unknown {
    return encode(this.#native.update(toBytes(data, "data", inputEncoding)), outputEncoding);
  }
  final(encoding?: string): unknown {
    return encode(this.#native.final(), encoding);
  }
  getAuthTag(): unknown {
    return encode(this.#native.getAuthTag());
  }
  setAuthTag(tag: Data, encoding?: string): this {
    this.#native.setAuthTag(toBytes(tag, "buffer", encoding));
    return this;
  }
  setAAD(data: Data, options?: { readonly plaintextLength?: number; readonly encoding?: string }): this {
    this.#native.setAAD(toBytes(data, "buffer", options?.encoding), options?.plaintextLength);
    return this;
  }
  setAutoPadding(on = true): this {
    this.#native.setAutoPadding(on);
    return this;
  }
  override _transform(chunk: Data, encoding: string, done: Done): void {
    attempt(done, () => this.update(chunk, encoding));
  }
  override _flush(done: Done): void {
    attempt(done, () => this.final());
  }
}

function attempt(done: Done, make: () => unknown): void {
  let data: unknown;
  try {
    data = make();
  } catch (error) {
    done(error as Error);
    return;
  }
  done(null, data);
}

class DecipherState extends Cipher {}

type CipherArguments = [algorithm: string, key: Data, iv: Data | null, options?: CipherSettings];
const cipherArguments =
  (decrypt: boolean) =>
  (...[algorithm, key, iv, options = {}]: CipherArguments): [NativeCipher, object] => {
    checkString(algorithm, "cipher");
    const { authTagLength } = options;
    const bytes = { key: toBytes(key, "key"), iv: iv === null ? null : toBytes(iv, "iv") };
    return [
      openCipher({ algorithm, decrypt, ...bytes, ...(authTagLength === undefined ? {} : { authTagLength }) }),
      options,
    ];
  };
const encryption = cipherArguments(false);
const decryption = cipherArguments(true);
const Cipheriv = callable(Cipher, { convert: encryption });
const Decipheriv = callable(DecipherState, { convert: decryption });
const createCipheriv = (...args: CipherArguments): Cipher => new Cipher(...encryption(...args));
const createDecipheriv = (...args: CipherArguments): Cipher => new DecipherState(...decryption(...args));

const MAX_RANDOM_BYTES = 2 ** 31 - 1;
const MIN_INT32 = -(2 ** 31);

function randomBytes(size: number, callback?: unknown): unknown {
  checkRange(size, "size", 0, MAX_RANDOM_BYTES);
  return maybeLater(callback, () => encode(randomNative(size)));
}

/** @param offset number of elements of a typed array, as `size` */
function randomFillSync(target: ArrayBufferView | ArrayBuffer, offset: unknown = 0, size?: unknown): unknown {
  const bytes = toBytes(target, "buf");
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

function randomFill(target: ArrayBufferView, ...rest: unknown[]): void {
  const callback = rest.pop();
  checkFunction(callback, "callback");
  maybeLater(callback, () => randomFillSync(target, ...rest));
}

function randomInt(...args: readonly unknown[]): unknown {
  const callback = typeof args.at(-1) === "function" ? args.at(-1) : undefined;
  const numbers = args.filter((one) => typeof one === "number");
  const [min, max] = numbers.length > 1 ? (numbers as [number, number]) : [0, numbers[0] as number];
  if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max)) throw invalidArgument("max", "a safe integer", args[0]);
  if (!(max > min)) throw outOfRange("max", `greater than the value of "min" (${min})`, max);
  return maybeLater(callback, () => randomNumber(min, max));
}

/** Returns a UUID that starts with the time in milliseconds (RFC 9562). */
function randomUUIDv7(options: unknown = {}): string {
  checkObject(options, "options");
  const { disableEntropyCache = false } = options as { readonly disableEntropyCache?: unknown };
  checkBoolean(disableEntropyCache, "options.disableEntropyCache");
  const time = Date.now().toString(16).padStart(12, "0");
  const random = randomUUID();
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}

function getCipherInfo(nameOrNid: unknown, options: unknown = {}): unknown {
  if (typeof nameOrNid !== "string" && typeof nameOrNid !== "number") {
    throw invalidArgument("nameOrNid", "one of type string or number", nameOrNid);
  }
  checkObject(options, "options");
  const { keyLength, ivLength } = options as { readonly keyLength?: unknown; readonly ivLength?: unknown };
  if (keyLength !== undefined) checkInteger(keyLength, "options.keyLength", MIN_INT32, MAX_RANDOM_BYTES);
  if (ivLength !== undefined) checkInteger(ivLength, "options.ivLength", MIN_INT32, MAX_RANDOM_BYTES);
  const info = callWorker("cipherInfo", [nameOrNid, keyLength ?? null, ivLength ?? null], []);
  return info === null ? undefined : Object.assign(Object.create(null), info);
}

function timingSafeEqual(a: Data, b: Data): boolean {
  const [x, y] = [toBytes(a, "buf1"), toBytes(b, "buf2")];
  if (x.length !== y.length) {
    throw nodeError(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
  }
  return equalBytes(x, y);
}

type Pbkdf2Arguments = [password: Data, salt: Data, iterations: number, length: number, digest: string];

function pbkdf2Options(
  ...[password, salt, iterations, length, digest]: Pbkdf2Arguments
): Parameters<typeof derivePbkdf2>[0] {
  checkString(digest, "digest");
  checkRange(iterations, "iterations", 1, MAX_RANDOM_BYTES);
  checkRange(length, "keylen", 0, MAX_RANDOM_BYTES);
  return { password: toBytes(password, "password"), salt: toBytes(salt, "salt"), iterations, length, digest };
}

function pbkdf2(...args: [...Pbkdf2Arguments, callback: unknown]): void {
  const callback = args.pop();
  settle(derivePbkdf2(pbkdf2Options(...(args as unknown as Pbkdf2Arguments))), callback);
}

const pbkdf2Sync = (...args: Pbkdf2Arguments): unknown => encode(derivePbkdf2Sync(pbkdf2Options(...args)));

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
  return { password: toBytes(password, "password"), salt: toBytes(salt, "salt"), length, N, r, p };
}

function scrypt(password: Data, salt: Data, length: number, ...rest: readonly unknown[]): void {
  const given = rest.length > 1 ? (rest[0] as ScryptSettings) : undefined;
  settle(deriveScrypt(scryptOptions(password, salt, length, given)), rest.at(-1));
}

const scryptSync = (password: Data, salt: Data, length: number, given?: ScryptSettings): unknown =>
  encode(deriveScryptSync(scryptOptions(password, salt, length, given)));

function hkdfSync(digest: string, key: Data, salt: Data, info: Data, length: number): ArrayBuffer {
  const bytes = { key: toBytes(key, "ikm"), salt: toBytes(salt, "salt"), info: toBytes(info, "info") };
  const made = hkdfBytes({ digest, length, ...bytes });
  return made.slice().buffer as ArrayBuffer;
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
