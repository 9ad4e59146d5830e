// Keys of node:crypto. The bytes of a secret key are in the guest. An asymmetric key is in the worker, and the guest has a number for it.
import type { KeyMetadata, KeyObjectMetadata } from "../../../protocol/crypto-messages.ts";
import { invalidArgument, nodeError } from "../shared/node-error.ts";
import { handleOf, toCryptoKey } from "./crypto.ts";
import { callWorker, callWorkerForBytes } from "./crypto-call.ts";
import { Handles } from "./crypto-handles.ts";
import { type Data, dataBytes, encode } from "./node-crypto-data.ts";

interface Jwk {
  readonly kty?: string;
  readonly [member: string]: unknown;
}

interface KeyInput {
  readonly key: unknown;
  readonly format?: "pem" | "der" | "jwk" | undefined;
  readonly type?: string | undefined;
  readonly passphrase?: Data | undefined;
  readonly encoding?: string | undefined;
}

export interface ExportOptions {
  readonly format?: "pem" | "der" | "jwk" | "buffer" | undefined;
  readonly type?: string | undefined;
  readonly cipher?: string | undefined;
  readonly passphrase?: Data | undefined;
}

const TOKEN = Symbol("KeyObject");

/** Approximate size of a key in the worker. The guest's object takes the same size, so that V8 collects unreferenced keys. */
const KEY_BYTES = 8_192;

const handles = new Handles("forgetKeyObjects");

export class KeyObject {
  readonly #type: "secret" | "public" | "private";

  constructor(token: unknown, type: "secret" | "public" | "private") {
    if (token !== TOKEN) throw new TypeError("Illegal constructor");
    this.#type = type;
  }

  get type(): string {
    return this.#type;
  }

  equals(other: unknown): boolean {
    if (!(other instanceof KeyObject)) throw invalidArgument("otherKeyObject", "an instance of KeyObject", other);
    if (other.type !== this.type) return false;
    if (this instanceof SecretKeyObject) return encode(bytesOf(this), "hex") === encode(bytesOf(other), "hex");
    return callWorker("equalKeyObjects", [keyHandle(this), keyHandle(other)], []) as boolean;
  }

  /** Takes algorithm, extractable and usages like `subtle.importKey`. */
  toCryptoKey(algorithm: unknown, extractable: boolean, usages: readonly string[]): unknown {
    const isSecret = this instanceof SecretKeyObject;
    const handle = isSecret ? secretHandle(bytesOf(this)) : keyHandle(this);
    const args = [handle, toWireAlgorithm(algorithm), extractable === true, [...usages]];
    const metadata = callWorker("cryptoKeyOf", args, []) as KeyMetadata;
    if (isSecret) callWorker("forgetKeyObjects", [[handle]], []);
    return toCryptoKey(metadata);
  }

  static from(key: unknown): KeyObject {
    const handle = handleOf(key);
    if (handle === undefined) throw invalidArgument("key", "an instance of CryptoKey", key);
    if ((key as { readonly type: string }).type === "secret") {
      return new SecretKeyObject(callWorkerForBytes("secretOf", [handle], []));
    }
    return toKeyObject(callWorker("keyObjectOf", [handle], []) as KeyObjectMetadata);
  }
}

Object.defineProperty(KeyObject.prototype, Symbol.toStringTag, { value: "KeyObject", configurable: true });

/** Returns the algorithm as text, or with the members that importing a key reads. */
function toWireAlgorithm(algorithm: unknown): unknown {
  if (typeof algorithm !== "object" || algorithm === null) return `${algorithm as string}`;
  const { name, hash, namedCurve, length } = algorithm as { readonly [member: string]: unknown };
  return { name, namedCurve, length, ...(hash === undefined ? {} : { hash: toWireAlgorithm(hash) }) };
}

const secretHandle = (bytes: Uint8Array): number => callWorker("secretKeyObject", [], [bytes]) as number;

let bytesOf: (key: KeyObject) => Uint8Array;

export class SecretKeyObject extends KeyObject {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    super(TOKEN, "secret");
    this.#bytes = bytes;
  }

  static {
    bytesOf = (key) => (key as SecretKeyObject).#bytes;
  }

  get symmetricKeySize(): number {
    return this.#bytes.length;
  }

  export(options: ExportOptions = {}): unknown {
    if (options.format === "jwk") return { kty: "oct", k: encode(this.#bytes, "base64url") };
    return encode(new Uint8Array(this.#bytes));
  }
}

let metadataOf: (key: KeyObject) => KeyObjectMetadata | undefined;

abstract class AsymmetricKeyObject extends KeyObject {
  readonly #metadata: KeyObjectMetadata;
  readonly #weight = new ArrayBuffer(KEY_BYTES);

  constructor(metadata: KeyObjectMetadata) {
    super(TOKEN, metadata.type);
    this.#metadata = metadata;
    handles.add(metadata.handle, this);
  }

  static {
    metadataOf = (key) => (#metadata in key && key.#weight !== undefined ? key.#metadata : undefined);
  }

  get asymmetricKeyType(): string | undefined {
    return this.#metadata.asymmetricKeyType;
  }

  get asymmetricKeyDetails(): object {
    const { publicExponent, ...details } = this.#metadata.details;
    return publicExponent === undefined ? details : { ...details, publicExponent: BigInt(publicExponent as string) };
  }

  export(options: ExportOptions = {}): unknown {
    return exportKey(this, options);
  }
}

class PublicKeyObject extends AsymmetricKeyObject {}

class PrivateKeyObject extends AsymmetricKeyObject {}

export const toKeyObject = (metadata: KeyObjectMetadata): KeyObject =>
  metadata.type === "private" ? new PrivateKeyObject(metadata) : new PublicKeyObject(metadata);

export function exportKey(key: KeyObject, { format, type, cipher, passphrase }: ExportOptions): unknown {
  if (format !== "pem" && format !== "der" && format !== "jwk") {
    throw nodeError(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.format' is invalid. Received ${format}`);
  }
  const args = [keyHandle(key), format === "jwk" ? { format } : { format, type, cipher }];
  const secret = passphrase === undefined ? [] : [dataBytes(passphrase, "options.passphrase")];
  return format === "der"
    ? encode(callWorkerForBytes("exportKeyObject", args, secret))
    : callWorker("exportKeyObject", args, secret);
}

/** @throws {TypeError} for a secret key */
export function keyHandle(key: KeyObject): number {
  const metadata = metadataOf(key);
  if (metadata === undefined) {
    const message = `Invalid key object type ${key.type}, expected private or public.`;
    throw nodeError(TypeError, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE", message);
  }
  return metadata.handle;
}

/** Returns the bytes of a secret key or of data, for the key of an HMAC or a cipher. */
export function keyBytes(key: unknown, name: string, encoding?: string): Uint8Array {
  if (key instanceof SecretKeyObject) return bytesOf(key);
  if (handleOf(key) !== undefined) return bytesOf(KeyObject.from(key));
  return dataBytes(key, name, encoding);
}

export const createSecretKey = (key: Data, encoding?: string): KeyObject =>
  new SecretKeyObject(new Uint8Array(dataBytes(key, "key", encoding)));

const isData = (value: unknown): value is Data =>
  typeof value === "string" || ArrayBuffer.isView(value) || value instanceof ArrayBuffer;

function importKey(kind: "private" | "public", given: KeyInput): KeyObject {
  const { key, type, passphrase, encoding } = given;
  const isJwk = given.format === "jwk";
  const format = given.format ?? "pem";
  if (isJwk && (typeof key !== "object" || key === null)) throw invalidArgument("key.key", "of type object", key);
  if (!isJwk && !isData(key)) {
    throw invalidArgument(
      "key.key",
      "of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView",
      key,
    );
  }
  const jwk = isJwk ? { jwk: { ...(key as Jwk) } } : {};
  const hasPassphrase = passphrase !== undefined && passphrase !== null;
  const material = isJwk ? new Uint8Array() : dataBytes(key, "key.key", encoding);
  const bytes = hasPassphrase ? [material, dataBytes(passphrase, "key.passphrase", encoding)] : [material];
  return toKeyObject(
    callWorker("importKeyObject", [{ kind, format, type, hasPassphrase, ...jwk }], bytes) as KeyObjectMetadata,
  );
}

const isInput = (value: unknown): value is KeyInput =>
  typeof value === "object" &&
  value !== null &&
  !isData(value) &&
  !(value instanceof KeyObject) &&
  handleOf(value) === undefined;

/** Converts a key argument of any function of node:crypto to a KeyObject. */
function toKey(kind: "private" | "public", given: unknown): KeyObject {
  const input: KeyInput = isInput(given) ? given : { key: given };
  if (input.key instanceof KeyObject) return input.key;
  if (handleOf(input.key) !== undefined) return KeyObject.from(input.key);
  return importKey(kind, input);
}

export const toPrivateKey = (given: unknown): KeyObject => ofType(toKey("private", given), "private");

/** Also accepts a private key, whose public half is used. */
export function toPublicKey(given: unknown): KeyObject {
  const key = toKey("public", given);
  if (key.type === "secret") return ofType(key, "public");
  return key;
}

function ofType(key: KeyObject, type: "private" | "public"): KeyObject {
  if (key.type === type) return key;
  const message = `Invalid key object type ${key.type}, expected ${type}.`;
  throw nodeError(TypeError, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE", message);
}

export function createPrivateKey(given: unknown): KeyObject {
  const input: KeyInput = isInput(given) ? given : { key: given };
  if (input.key instanceof KeyObject)
    throw invalidArgument("key", "of type string, ArrayBuffer, Buffer or object", input.key);
  return ofType(toKey("private", given), "private");
}

export function createPublicKey(given: unknown): KeyObject {
  const input: KeyInput = isInput(given) ? given : { key: given };
  if (input.key instanceof KeyObject) ofType(input.key, "private");
  const key = toPublicKey(given);
  if (key.type === "public") return key;
  return toKeyObject(callWorker("publicKeyObject", [keyHandle(key)], []) as KeyObjectMetadata);
}

export const toPublicKeyObject = (metadata: KeyObjectMetadata): KeyObject => toKeyObject(metadata);
