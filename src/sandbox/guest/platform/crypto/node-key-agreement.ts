// Key agreement: ECDH, Diffie-Hellman with the groups of RFC 2409 and 3526, and diffieHellman() for keys. Private keys are in the guest
// here, because getPrivateKey() returns them.

import { Buffer } from "../buffer/node-buffer.ts";
import { checkFunction, checkString, invalidArgument, nodeError, unsupported } from "../shared/node-error.ts";
import { callWorker, callWorkerForBytes } from "./crypto-call.ts";
import { Handles } from "./crypto-handles.ts";
import { type Callback, type Data, dataBytes, encode } from "./node-crypto-data.ts";
import { KeyObject, keyHandle, toPrivateKey, toPublicKey } from "./node-keys.ts";

interface Halves {
  readonly privateKey: Uint8Array;
  readonly publicKey: Uint8Array;
}

/** Splits a response: two bytes with the length of the private half, the private half, the public half. */
function split(answer: Uint8Array): Halves {
  const length = (answer[0] as number) + 256 * (answer[1] as number);
  return { privateKey: answer.slice(2, 2 + length), publicKey: answer.slice(2 + length) };
}

const noKey = (which: string): Error =>
  nodeError(
    Error,
    `ERR_CRYPTO_ECDH_INVALID_${which === "public" ? "PUBLIC" : "PRIVATE"}_KEY`,
    `The ${which} key has not been generated`,
  );

abstract class Agreement {
  protected readonly name: string;
  #privateKey: Uint8Array | undefined;
  #publicKey: Uint8Array | undefined;

  constructor(name: string) {
    this.name = name;
  }

  protected keep(halves: Partial<Halves>): void {
    this.#privateKey = halves.privateKey ?? this.#privateKey;
    this.#publicKey = halves.publicKey ?? this.#publicKey;
  }
  protected get privateBytes(): Uint8Array {
    if (this.#privateKey === undefined) throw noKey("private");
    return this.#privateKey;
  }
  protected get publicBytes(): Uint8Array {
    if (this.#publicKey === undefined) throw noKey("public");
    return this.#publicKey;
  }
  getPrivateKey(encoding?: string): unknown {
    return encode(this.privateBytes, encoding);
  }
}

const FORMATS: readonly unknown[] = ["compressed", "uncompressed", "hybrid"];

function convert(curve: string, bytes: Uint8Array, format: unknown): Uint8Array {
  if (!FORMATS.includes(format))
    throw nodeError(TypeError, "ERR_CRYPTO_ECDH_INVALID_FORMAT", `Invalid ECDH format: ${String(format)}`);
  return callWorkerForBytes("ecdhConvert", [curve, format], [bytes]);
}

export class ECDH extends Agreement {
  constructor(curve: string) {
    checkString(curve, "curve");
    super(curve);
    if (!(callWorker("curves", [], []) as string[]).includes(curve)) {
      throw nodeError(TypeError, "ERR_CRYPTO_INVALID_CURVE", "Invalid EC curve name");
    }
  }
  generateKeys(encoding?: string, format?: string): unknown {
    this.keep(split(callWorkerForBytes("ecdhGenerate", [this.name], [])));
    return this.getPublicKey(encoding, format);
  }
  getPublicKey(encoding?: string, format: string = "uncompressed"): unknown {
    const bytes = this.publicBytes;
    return encode(format === "uncompressed" ? bytes : convert(this.name, bytes, format), encoding);
  }
  setPrivateKey(key: Data, encoding?: string): void {
    const privateKey = new Uint8Array(dataBytes(key, "key", encoding));
    this.keep({ privateKey, publicKey: callWorkerForBytes("ecdhPublic", [this.name], [privateKey]) });
  }
  setPublicKey(key: Data, encoding?: string): void {
    this.keep({ publicKey: convert(this.name, dataBytes(key, "key", encoding), "uncompressed") });
  }
  computeSecret(other: Data, inputEncoding?: string, outputEncoding?: string): unknown {
    const bytes = dataBytes(other, "otherPublicKey", inputEncoding);
    return encode(callWorkerForBytes("ecdhSecret", [this.name], [this.privateBytes, bytes]), outputEncoding);
  }
  static convertKey(
    ...[key, curve, from, to, format = "uncompressed"]: readonly [Data, string, string?, string?, string?]
  ): unknown {
    return encode(convert(curve, dataBytes(key, "key", from), format), to);
  }
}

const groups = new Handles("forgetGroups");

interface GroupMetadata {
  readonly handle: number;
  readonly prime: string;
  readonly generator: string;
}

export class DiffieHellmanGroup extends Agreement {
  readonly verifyError = 0;
  readonly #metadata: GroupMetadata;

  constructor(group: string) {
    checkString(group, "name");
    super(group);
    this.#metadata = callWorker("openGroup", [group], []) as GroupMetadata;
    groups.add(this.#metadata.handle, this);
  }
  getPrime(encoding?: string): unknown {
    return encode(Buffer.from(this.#metadata.prime, "hex"), encoding);
  }
  getGenerator(encoding?: string): unknown {
    return encode(Buffer.from(this.#metadata.generator, "hex"), encoding);
  }
  generateKeys(encoding?: string): unknown {
    this.keep(split(callWorkerForBytes("groupGenerate", [this.#metadata.handle], [])));
    return this.getPublicKey(encoding);
  }
  getPublicKey(encoding?: string): unknown {
    return encode(this.publicBytes, encoding);
  }
  computeSecret(other: Data, inputEncoding?: string, outputEncoding?: string): unknown {
    const bytes = dataBytes(other, "otherPublicKey", inputEncoding);
    return encode(callWorkerForBytes("groupSecret", [this.#metadata.handle], [bytes]), outputEncoding);
  }
}

export const createECDH = (curve: string): ECDH => new ECDH(curve);
export const getDiffieHellman = (group: string): DiffieHellmanGroup => new DiffieHellmanGroup(group);

/** Unsupported: checking that a guest's number is a prime would take seconds and cannot be interrupted. */
export function createDiffieHellman(): never {
  throw unsupported(
    "crypto.createDiffieHellman()",
    "use getDiffieHellman() for the groups of RFC 3526, or createECDH() for curves",
  );
}

export function diffieHellman(options: { readonly privateKey?: unknown; readonly publicKey?: unknown }): unknown {
  const { privateKey, publicKey } = options;
  if (!(privateKey instanceof KeyObject))
    throw invalidArgument("options.privateKey", "an instance of KeyObject", privateKey);
  if (!(publicKey instanceof KeyObject))
    throw invalidArgument("options.publicKey", "an instance of KeyObject", publicKey);
  return encode(callWorkerForBytes("agreeOnSecret", [keyHandle(privateKey), keyHandle(publicKey)], []));
}

/** Returns the result, or passes the result or the error of the operation to a callback if there is one. */
function complete(callback: unknown, run: () => unknown): unknown {
  if (callback === undefined) return run();
  checkFunction(callback, "callback");
  const done = callback as unknown as Callback;
  void Promise.resolve()
    .then(run)
    .then(
      (value) => done(null, value),
      (error: unknown) => done(error),
    );
  return undefined;
}

/** Runs a key encapsulation mechanism, such as ML-KEM, for the owner of a public key. */
export function encapsulate(key: unknown, callback?: unknown): unknown {
  const handle = keyHandle(toPublicKey(key));
  return complete(callback, () => {
    const { privateKey, publicKey } = split(callWorkerForBytes("encapsulate", [handle], []));
    return { sharedKey: encode(privateKey), ciphertext: encode(publicKey) };
  });
}

export function decapsulate(key: unknown, ciphertext: unknown, callback?: unknown): unknown {
  const handle = keyHandle(toPrivateKey(key));
  const bytes = dataBytes(ciphertext, "ciphertext");
  return complete(callback, () => encode(callWorkerForBytes("decapsulate", [handle], [bytes])));
}

export const getCurves = (): string[] => callWorker("curves", [], []) as string[];
