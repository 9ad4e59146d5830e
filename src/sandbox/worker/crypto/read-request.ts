// Converts a guest's SubtleCrypto request, which consists of text and buffers, to arguments for Node's SubtleCrypto. The result has only
// members that the standard defines. A tool may have tampered with the guest's code, so every value is validated.
import * as z from "zod";
import { isJsonObject } from "../../contract/value-kind.ts";
import {
  type Argument,
  JWK_PRIME_TEXTS,
  JWK_TEXTS,
  MAX_REQUEST_LENGTH,
  MEMBERS,
  SUBTLE_METHODS,
  type SubtleMethod,
} from "../../protocol/crypto-messages.ts";
import { CryptoError } from "./errors.ts";
import type { KeyStore } from "./key-store.ts";

export interface SubtleRequest {
  readonly method: SubtleMethod;
  /** Arguments for Node's method of the same name. */
  readonly args: readonly unknown[];
}

const MAX_TEXT_LENGTH = 256;
const MAX_USAGES = 64;
const RequestSchema = z.strictObject({ method: z.string(), args: z.array(z.unknown()).max(8) });
type Members = { [member: string]: unknown };

const invalid = (what: string): CryptoError => new CryptoError("TypeError", `Expected ${what}`);
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length <= MAX_USAGES && value.every((item) => typeof item === "string");

/** Reads the values of one request. */
export class RequestReader {
  readonly #keys: KeyStore;
  readonly #buffers: readonly ArrayBuffer[];

  constructor(keys: KeyStore, buffers: readonly ArrayBuffer[]) {
    this.#keys = keys;
    this.#buffers = buffers;
  }

  bytes(value: unknown): Uint8Array {
    const buffer = typeof value === "number" ? this.#buffers[value] : undefined;
    if (buffer === undefined) throw invalid("a BufferSource");
    return new Uint8Array(buffer);
  }

  algorithm(value: unknown): unknown {
    if (typeof value === "string") return value.slice(0, MAX_TEXT_LENGTH);
    if (!isJsonObject(value)) throw invalid("an algorithm");
    const algorithm: Members = { __proto__: null };
    for (const [member, kind] of Object.entries(MEMBERS)) {
      if (!Object.hasOwn(value, member)) continue;
      const given = value[member];
      if (kind === "bytes" || kind === "integer") algorithm[member] = this.bytes(given);
      else if (kind === "key") algorithm[member] = this.#keys.get(given);
      else if (kind === "hash") algorithm[member] = this.algorithm(given);
      else if (typeof given === (kind === "text" ? "string" : "number")) algorithm[member] = given;
      else throw invalid(`${member} to be a ${kind}`);
    }
    return algorithm;
  }

  argument({ kind }: Argument, value: unknown): unknown {
    switch (kind) {
      case "algorithm":
        return this.algorithm(value);
      case "lengthOrAlgorithm":
        return typeof value === "number" || value === null ? value : this.algorithm(value);
      case "bytes":
        return this.bytes(value);
      case "key":
        return this.#keys.get(value);
      case "keyData":
        return typeof value === "number" ? this.bytes(value) : readJwk(value);
      case "boolean":
        return value === true;
      case "usages":
        if (!isTexts(value)) throw invalid("a list of key usages");
        return value;
      case "length":
        if (typeof value !== "number" && value !== null) throw invalid("a length");
        return value;
      default:
        if (typeof value !== "string") throw invalid("a text");
        return value;
    }
  }
}

function readJwk(value: unknown): Members {
  if (!isJsonObject(value)) throw invalid("a JsonWebKey");
  const jwk: Members = {};
  for (const member of JWK_TEXTS) if (typeof value[member] === "string") jwk[member] = value[member];
  if (typeof value.ext === "boolean") jwk.ext = value.ext;
  if (isTexts(value.key_ops)) jwk.key_ops = value.key_ops;
  if (Array.isArray(value.oth)) {
    jwk.oth = value.oth.slice(0, MAX_USAGES).map((prime: unknown) => {
      const read: Members = {};
      for (const member of JWK_PRIME_TEXTS) {
        if (isJsonObject(prime) && typeof prime[member] === "string") read[member] = prime[member];
      }
      return read;
    });
  }
  return jwk;
}

/** @throws {Error} any error, which the caller converts with `toFailure` */
export function parseCryptoRequest(text: string): { readonly method: string; readonly args: readonly unknown[] } {
  if (text.length > MAX_REQUEST_LENGTH) {
    throw new CryptoError("QuotaExceededError", `Parameters must have at most ${MAX_REQUEST_LENGTH} characters`);
  }
  const { success, data } = RequestSchema.safeParse(JSON.parse(text));
  if (!success) throw invalid("a method and its arguments");
  return data;
}

export const isSubtleMethod = (method: string): method is SubtleMethod => Object.hasOwn(SUBTLE_METHODS, method);

export function readSubtleRequest(
  method: SubtleMethod,
  args: readonly unknown[],
  reader: RequestReader,
): SubtleRequest {
  const signature: readonly Argument[] = SUBTLE_METHODS[method];
  // Only the last argument of deriveBits, the length, may be omitted.
  const given = signature.slice(0, method === "deriveBits" ? args.length : signature.length);
  return { method, args: given.map((argument, index) => reader.argument(argument, args[index])) };
}
