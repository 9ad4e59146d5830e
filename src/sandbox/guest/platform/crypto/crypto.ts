// crypto, Crypto, CryptoKey and SubtleCrypto (W3C Web Cryptography API), the guest's side. The worker computes with Node's cryptography.
import {
  type Argument,
  MAX_PIECE_BYTES,
  type Operation,
  SUBTLE_METHODS,
  SUPPORTS_WITH_ALGORITHM,
} from "../../../protocol/crypto-messages.ts";
import { requestFromWorker } from "../../host.ts";
import { createDomException } from "../../module-loader.ts";
import { Crossing } from "./crypto-arguments.ts";
import { runJob, toError } from "./crypto-jobs.ts";
import { CryptoKey, handleOf, toCryptoKey } from "./crypto-key.ts";
import { fillRandom } from "./crypto-random.ts";

const TOKEN = Symbol("Crypto");
const MAX_RANDOM_VALUES = 65_536;
const INTEGERS = /^(?:Int|Uint|Big(?:Int|Uint))(?:8|16|32|64|8Clamped)Array$/;
const tagOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)
  ?.get as () => string | undefined;

function defineInterface(target: abstract new (...args: never[]) => object, name: string): void {
  const { prototype } = target as { readonly prototype: object };
  for (const key of Object.getOwnPropertyNames(prototype)) {
    if (key !== "constructor") Object.defineProperty(prototype, key, { enumerable: true });
  }
  const tag = { value: name, writable: false, enumerable: false, configurable: true };
  Object.defineProperty(prototype, Symbol.toStringTag, tag);
}

function requireArguments(method: string, given: number, required: number): void {
  if (given < required) throw new TypeError(`${method} expected ${required} arguments, got ${given}`);
}

async function callSubtle(method: string, signature: readonly Argument[], args: readonly unknown[]): Promise<unknown> {
  requireArguments(method, args.length, requiredOf(signature));
  const crossing = new Crossing();
  const crossed = crossing.cross(signature, args);
  const digest = method === "digest" ? digestInPieces(crossed[0], crossing.buffers[0]) : undefined;
  if (digest !== undefined) return digest;
  const text = JSON.stringify({ method, args: crossed });
  const { response, buffers } = await runJob({ text, buffers: crossing.buffers });
  switch (response.type) {
    case "bytes":
      return buffers[0];
    case "key":
      return toCryptoKey(response.key);
    case "pair":
      return { publicKey: toCryptoKey(response.publicKey), privateKey: toCryptoKey(response.privateKey) };
    case "encapsulated": {
      const { sharedKey } = response;
      const [ciphertext, bits] = buffers;
      return { sharedKey: sharedKey === undefined ? bits : toCryptoKey(sharedKey), ciphertext };
    }
    default:
      return response.value;
  }
}

/** Above this size a plain hash is computed in pieces, because the worker would copy the input of a job as a whole. */
const LARGE_BYTES = 4 * MAX_PIECE_BYTES;
const PLAIN_HASH = /^SHA(?:-(?:1|256|384|512)|3-(?:256|384|512))$/;

function digestInPieces(algorithm: unknown, data: ArrayBuffer | undefined): ArrayBuffer | undefined {
  if (data === undefined || data.byteLength <= LARGE_BYTES) return undefined;
  const { name } = (typeof algorithm === "string" ? { name: algorithm } : algorithm) as { readonly name: string };
  const known = name.toUpperCase();
  if (!PLAIN_HASH.test(known)) return undefined;
  const request = (method: string, args: readonly unknown[], piece?: ArrayBuffer): unknown =>
    requestFromWorker("crypto", JSON.stringify({ method, args }), piece);
  const opened = request("openHash", [known.toLowerCase().replace("sha-", "sha"), null]);
  const { value: handle } = JSON.parse(`${opened}`) as { readonly value?: number };
  for (let start = 0; start < data.byteLength; start += MAX_PIECE_BYTES) {
    request("updateHash", [handle], data.slice(start, start + MAX_PIECE_BYTES));
  }
  const digest = request("digest", [handle]);
  if (!(digest instanceof ArrayBuffer)) throw createDomException("The digest could not be computed", "OperationError");
  return digest;
}

const requiredOf = (signature: readonly Argument[]): number => signature.filter(({ kind }) => kind !== "length").length;

export class SubtleCrypto {
  readonly #isReal = true;

  constructor(...parts: readonly unknown[]) {
    if (parts[0] !== TOKEN) throw new TypeError("Illegal constructor");
  }

  static isReal(value: unknown): boolean {
    return typeof value === "object" && value !== null && #isReal in value && value.#isReal;
  }

  static supports(...args: readonly unknown[]): boolean {
    requireArguments("supports", args.length, 2);
    const [operation, algorithm, last] = args;
    const name = `${operation as string}`;
    try {
      const crossing = new Crossing();
      const third = last ?? null;
      const takesAlgorithm = SUPPORTS_WITH_ALGORITHM.includes(name);
      const crossed = [
        name,
        crossing.algorithm(toIdentifier(algorithm), operationsOf(name)),
        takesAlgorithm ? crossing.algorithm(toIdentifier(third), ["importKey", "getKeyLength"]) : toLength(third),
      ];
      const text = JSON.stringify({ method: "supports", args: crossed });
      const [first, second, ...others] = crossing.buffers;
      const response = JSON.parse(`${requestFromWorker("crypto", text, first, second, others[0], others[1])}`) as {
        readonly value?: unknown;
      };
      return response.value === true;
    } catch (thrown) {
      if (thrown instanceof TypeError) return false;
      throw thrown;
    }
  }
}

const toIdentifier = (value: unknown): unknown =>
  (typeof value === "object" && value !== null) || typeof value === "function" ? value : `${value as string}`;
const toLength = (value: unknown): number | null => (value === null ? null : Math.trunc(Number(value)));

/** Returns the operations that `supports` checks for a method. */
function operationsOf(method: string): readonly Operation[] {
  const signature = (SUBTLE_METHODS as { readonly [name: string]: readonly Argument[] | undefined })[method];
  return signature?.find(({ kind }) => kind === "algorithm")?.operations ?? [];
}

for (const [name, signature] of Object.entries(SUBTLE_METHODS)) {
  const methods = {
    [name](this: unknown, ...args: readonly unknown[]): Promise<unknown> {
      if (!isSubtle(this)) return Promise.reject(new TypeError("Illegal invocation"));
      return callSubtle(name, signature, args);
    },
  };
  const method = methods[name] as () => Promise<unknown>;
  Object.defineProperty(method, "length", { value: requiredOf(signature) });
  Object.defineProperty(SubtleCrypto.prototype, name, { value: method, writable: true, configurable: true });
}
const { isReal: isSubtle } = SubtleCrypto;
Reflect.deleteProperty(SubtleCrypto, "isReal");
Object.defineProperty(SubtleCrypto, "supports", { enumerable: true });
Object.defineProperty(SubtleCrypto.supports, "length", { value: 2 });
defineInterface(SubtleCrypto, "SubtleCrypto");

const subtle = new SubtleCrypto(TOKEN);

/** Returns a version 4 UUID (RFC 9562). */
export function randomUUID(): string {
  const bytes = new Uint8Array(16);
  fillRandom(bytes);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  let text = "";
  for (const [index, byte] of bytes.entries()) {
    if (index === 4 || index === 6 || index === 8 || index === 10) text += "-";
    text += byte.toString(16).padStart(2, "0");
  }
  return text;
}

export class Crypto {
  readonly #isReal = true;

  constructor(...parts: readonly unknown[]) {
    if (parts[0] !== TOKEN) throw new TypeError("Illegal constructor");
  }

  get subtle(): SubtleCrypto {
    if (!this.#isReal) throw new TypeError("Illegal invocation");
    return subtle;
  }

  getRandomValues(array: unknown): unknown {
    if (!this.#isReal) throw new TypeError("Illegal invocation");
    if (!ArrayBuffer.isView(array)) throw new TypeError("getRandomValues expected a typed array of integers");
    if (!INTEGERS.test(Reflect.apply(tagOf, array, []) ?? "")) {
      throw createDomException("getRandomValues expected a typed array of integers", "TypeMismatchError");
    }
    if (array.byteLength > MAX_RANDOM_VALUES) {
      const message = `getRandomValues fills ${MAX_RANDOM_VALUES} bytes at most, got ${array.byteLength}`;
      throw createDomException(message, "QuotaExceededError");
    }
    fillRandom(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    return array;
  }

  randomUUID(): string {
    if (!this.#isReal) throw new TypeError("Illegal invocation");
    return randomUUID();
  }
}
defineInterface(Crypto, "Crypto");

export const crypto: Crypto = new Crypto(TOKEN);
export { CryptoKey, fillRandom, handleOf, runJob, toCryptoKey, toError };
