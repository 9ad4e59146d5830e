// Signatures and RSA encryption of node:crypto, with keys in the worker.
import { MAX_PIECE_BYTES } from "../../../protocol/crypto-messages.ts";
import { adoptable, callable } from "../shared/callable-classes.ts";
import { nameClasses } from "../shared/class-names.ts";
import { checkString, nodeError } from "../shared/node-error.ts";
import { Writable } from "../streams/node-stream.ts";
import { callWorker, callWorkerForBytes } from "./crypto-call.ts";
import { type Data, dataBytes, encode, maybeLater } from "./node-crypto-data.ts";
import { type KeyObject, keyHandle, toPrivateKey, toPublicKey } from "./node-keys.ts";

interface KeyOptions {
  readonly padding?: number;
  readonly saltLength?: number;
  readonly dsaEncoding?: string;
  readonly oaepHash?: string;
  readonly oaepLabel?: Data;
  readonly encoding?: string;
}
type Done = (error?: Error | null) => void;

/** Returns the options, which are in the same object as the key unless the argument itself is a key. */
const optionsOf = (given: unknown): KeyOptions =>
  typeof given === "object" && given !== null && !ArrayBuffer.isView(given) ? (given as KeyOptions) : {};

const withoutUndefined = (options: object): object =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

interface Operation {
  readonly algorithm: string | null;
  readonly pieces: readonly Uint8Array[];
  readonly key: KeyObject;
  readonly options: KeyOptions;
  /** The signature to verify. Undefined when a signature is created. */
  readonly signature?: Uint8Array;
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const [only] = pieces;
  if (pieces.length === 1 && only !== undefined) return only;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** Sends long input piece by piece, except for algorithms that read the whole input twice. */
function run({ algorithm, pieces, key, options, signature }: Operation): unknown {
  const { padding, saltLength, dsaEncoding } = options;
  const wire = withoutUndefined({ padding, saltLength, dsaEncoding });
  const size = pieces.reduce((sum, { length }) => sum + length, 0);
  const call = (method: string, args: readonly unknown[], bytes: readonly Uint8Array[]): unknown =>
    signature === undefined ? callWorkerForBytes(method, args, bytes) : callWorker(method, args, [...bytes, signature]);
  if (algorithm === null || size <= MAX_PIECE_BYTES) {
    return call("signData", [algorithm, keyHandle(key), wire], [joined(pieces, size)]);
  }
  const handle = callWorker("openSignature", [algorithm, signature !== undefined], []);
  for (const piece of pieces) {
    for (let start = 0; start < piece.length; start += MAX_PIECE_BYTES) {
      callWorker("updateSignature", [handle], [piece.subarray(start, start + MAX_PIECE_BYTES)]);
    }
  }
  return call("endSignature", [handle, keyHandle(key), wire], []);
}

class Signature extends adoptable(Writable) {
  readonly algorithm: string;
  #pieces: Uint8Array[] | undefined = [];

  constructor(algorithm: string, options?: object) {
    super(options);
    checkString(algorithm, "algorithm");
    this.algorithm = algorithm;
    // Reports an unknown algorithm at once.
    callWorker("digestBytes", [algorithm], []);
  }

  update(data: Data, encoding?: string): this {
    if (this.#pieces === undefined)
      throw nodeError(Error, "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation update");
    this.#pieces.push(new Uint8Array(dataBytes(data, "data", encoding)));
    return this;
  }

  takePieces(): readonly Uint8Array[] {
    const pieces = this.#pieces;
    if (pieces === undefined) throw nodeError(Error, "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation sign");
    this.#pieces = undefined;
    return pieces;
  }

  override _write(chunk: Data, encoding: string, done: Done): void {
    this.update(chunk, encoding);
    done();
  }
}

class Signer extends Signature {
  sign(given: unknown, encoding?: string): unknown {
    if (given === undefined || given === null)
      throw nodeError(Error, "ERR_CRYPTO_SIGN_KEY_REQUIRED", "No key provided to sign");
    const key = toPrivateKey(given);
    const { algorithm } = this;
    return encode(
      run({ algorithm, pieces: this.takePieces(), key, options: optionsOf(given) }) as Uint8Array,
      encoding,
    );
  }
}

class Verifier extends Signature {
  verify(given: unknown, signature: Data, encoding?: string): boolean {
    const key = toPublicKey(given);
    const { algorithm } = this;
    const bytes = dataBytes(signature, "signature", encoding);
    return run({ algorithm, pieces: this.takePieces(), key, options: optionsOf(given), signature: bytes }) as boolean;
  }
}

export const Sign = callable(Signer);
export const Verify = callable(Verifier);
nameClasses({ Sign, Verify });

export const createSign = (algorithm: string, options?: object): Signer => new Sign(algorithm, options);
export const createVerify = (algorithm: string, options?: object): Verifier => new Verify(algorithm, options);

function toAlgorithm(algorithm: unknown): string | null {
  if (algorithm === null || algorithm === undefined) return null;
  checkString(algorithm, "algorithm");
  return algorithm;
}

export function sign(algorithm: unknown, data: Data, given: unknown, callback?: unknown): unknown {
  const pieces = [dataBytes(data, "data")];
  const operation = { algorithm: toAlgorithm(algorithm), pieces, options: optionsOf(given) };
  return maybeLater(callback, () => encode(run({ ...operation, key: toPrivateKey(given) }) as Uint8Array));
}

export function verify(algorithm: unknown, data: Data, given: unknown, signature: Data, callback?: unknown): unknown {
  const pieces = [dataBytes(data, "data")];
  const bytes = dataBytes(signature, "signature");
  const operation = { algorithm: toAlgorithm(algorithm), pieces, options: optionsOf(given), signature: bytes };
  return maybeLater(callback, () => run({ ...operation, key: toPublicKey(given) }));
}

const crypt =
  (method: string, toKey: (given: unknown) => KeyObject) =>
  (given: unknown, data: Data): unknown => {
    const { padding, oaepHash, oaepLabel, encoding } = optionsOf(given);
    const bytes = dataBytes(data, "buffer", encoding);
    const label = oaepLabel === undefined ? [] : [dataBytes(oaepLabel, "key.oaepLabel", encoding)];
    const args = [method, keyHandle(toKey(given)), withoutUndefined({ padding, oaepHash })];
    return encode(callWorkerForBytes("cryptWithKey", args, [bytes, ...label]));
  };

export const publicEncrypt: ReturnType<typeof crypt> = crypt("publicEncrypt", toPublicKey);
export const publicDecrypt: ReturnType<typeof crypt> = crypt("publicDecrypt", toPublicKey);
export const privateEncrypt: ReturnType<typeof crypt> = crypt("privateEncrypt", toPrivateKey);
export const privateDecrypt: ReturnType<typeof crypt> = crypt("privateDecrypt", toPrivateKey);
