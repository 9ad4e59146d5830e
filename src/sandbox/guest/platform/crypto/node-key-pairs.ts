// Makes keys: pairs of asymmetric keys, and secret keys. Part of node:crypto.
import type { Failure, KeyObjectMetadata } from "../../../protocol/crypto-messages.ts";
import { checkFunction, checkRange, checkString, nodeError } from "../shared/node-error.ts";
import { runJob } from "./crypto.ts";
import { callWorker, toNodeError } from "./crypto-call.ts";
import { randomBytes } from "./crypto-native.ts";
import type { Callback } from "./node-crypto-data.ts";
import { type ExportOptions, exportKey, type KeyObject, SecretKeyObject, toKeyObject } from "./node-keys.ts";

interface PairOptions {
  readonly publicKeyEncoding?: ExportOptions;
  readonly privateKeyEncoding?: ExportOptions;
  readonly [option: string]: unknown;
}

interface PairMetadata {
  readonly publicKey: KeyObjectMetadata;
  readonly privateKey: KeyObjectMetadata;
}

interface Pair {
  readonly publicKey: unknown;
  readonly privateKey: unknown;
}

/** Converts the options to the worker's names. `hash` and `mgf1Hash` are deprecated names in Node. */
function pairRequest(type: unknown, options: PairOptions): [string, object] {
  checkString(type, "type");
  const {
    publicKeyEncoding: _public,
    privateKeyEncoding: _private,
    hash,
    mgf1Hash,
    groupName,
    primeLength,
    ...rest
  } = options;
  if (primeLength !== undefined) {
    throw nodeError(
      Error,
      "ERR_SANDBOX_UNSUPPORTED",
      "set the option group: the sandbox generates Diffie-Hellman keys from a named group only",
    );
  }
  const renamed = { hashAlgorithm: hash, mgf1HashAlgorithm: mgf1Hash, group: groupName };
  const defined = Object.entries({ ...renamed, ...rest }).filter(([, value]) => value !== undefined);
  return [type, Object.fromEntries(defined)];
}

function toPair(metadata: PairMetadata, { publicKeyEncoding, privateKeyEncoding }: PairOptions): Pair {
  const [publicKey, privateKey] = [toKeyObject(metadata.publicKey), toKeyObject(metadata.privateKey)];
  return {
    publicKey: publicKeyEncoding === undefined ? publicKey : exportKey(publicKey, publicKeyEncoding),
    privateKey: privateKeyEncoding === undefined ? privateKey : exportKey(privateKey, privateKeyEncoding),
  };
}

export function generateKeyPairSync(type: string, options: PairOptions = {}): Pair {
  return toPair(callWorker("generateKeyObjects", pairRequest(type, options), []) as PairMetadata, options);
}

async function generatePair(type: string, options: PairOptions): Promise<Pair> {
  const text = JSON.stringify({ method: "generateKeyPair", args: pairRequest(type, options) });
  try {
    const { response } = await runJob({ text, buffers: [] });
    return toPair((response as unknown as { readonly value: PairMetadata }).value, options);
  } catch (thrown) {
    const { name, message, code } = thrown as Failure;
    throw toNodeError({ ok: false, name, message, ...(typeof code === "string" ? { code } : {}) });
  }
}

export function generateKeyPair(type: string, ...rest: readonly unknown[]): void {
  const callback = rest.at(-1);
  checkFunction(callback, "callback");
  const options = rest.length > 1 ? ((rest[0] ?? {}) as PairOptions) : {};
  pairRequest(type, options);
  const done = callback as unknown as (error: unknown, publicKey?: unknown, privateKey?: unknown) => void;
  generatePair(type, options).then(
    ({ publicKey, privateKey }) => done(null, publicKey, privateKey),
    (error: unknown) => done(error),
  );
}

const AES_BITS: readonly unknown[] = [128, 192, 256];

export function generateKeySync(type: string, { length }: { readonly length?: unknown } = {}): KeyObject {
  if (type === "aes" ? !AES_BITS.includes(length) : type !== "hmac") {
    throw nodeError(
      TypeError,
      "ERR_INVALID_ARG_VALUE",
      `The argument 'type' or its length is invalid. Received ${type}`,
    );
  }
  checkRange(length, "options.length", 8, 2 ** 31 - 1);
  return new SecretKeyObject(randomBytes(Math.floor(length / 8)));
}

export function generateKey(type: string, options: { readonly length?: unknown }, callback: Callback): void {
  checkFunction(callback, "callback");
  const key = generateKeySync(type, options);
  queueMicrotask(() => callback(null, key));
}

declare function queueMicrotask(run: () => void): void;

const PROMISIFY = Symbol.for("nodejs.util.promisify.custom");

Object.defineProperty(generateKeyPair, PROMISIFY, {
  value: (type: string, options: PairOptions = {}) => generatePair(type, options),
});
