// CryptoKey: exposes the metadata of a key that the worker owns. The guest has only a number for it, which this file alone reads.

import type { KeyMetadata } from "../../../protocol/crypto-messages.ts";
import { requestFromWorker } from "../../host.ts";
import { createDomException } from "../../module-loader.ts";
import { addPlatformType } from "../../platform-types.ts";
import { pickFields, showAs } from "../fetch/fetch-inspect.ts";
import { Handles } from "./crypto-handles.ts";

/** Approximate size of a key in the worker. The guest's object takes the same size, so that V8 collects unreferenced keys. */
const KEY_BYTES = 4_096;
const TOKEN = Symbol("CryptoKey");

let handle: (key: unknown) => number | undefined;

export class CryptoKey {
  readonly #metadata: KeyMetadata;
  readonly #algorithm: object;
  readonly #usages: readonly string[];
  readonly #weight = new ArrayBuffer(KEY_BYTES);

  constructor(...parts: readonly unknown[]) {
    if (parts[0] !== TOKEN) throw new TypeError("Illegal constructor");
    this.#metadata = parts[1] as KeyMetadata;
    this.#algorithm = toAlgorithm(this.#metadata.algorithm);
    this.#usages = [...this.#metadata.usages];
  }

  get type(): string {
    return this.#metadata.type;
  }

  get extractable(): boolean {
    return this.#metadata.extractable;
  }

  get algorithm(): object {
    return this.#algorithm;
  }

  get usages(): readonly string[] {
    return this.#usages;
  }

  static {
    handle = (key) => {
      const isKey = typeof key === "object" && key !== null && #metadata in key && key.#weight !== undefined;
      return isKey ? key.#metadata.handle : undefined;
    };
  }
}

for (const name of ["type", "extractable", "algorithm", "usages"]) {
  Object.defineProperty(CryptoKey.prototype, name, { enumerable: true });
}
const tag = { value: "CryptoKey", writable: false, enumerable: false, configurable: true };
Object.defineProperty(CryptoKey.prototype, Symbol.toStringTag, tag);

function toAlgorithm(metadata: KeyMetadata["algorithm"]): object {
  const { publicExponent } = metadata;
  return Array.isArray(publicExponent) ? { ...metadata, publicExponent: Uint8Array.from(publicExponent) } : metadata;
}

/** Returns undefined if the value is not a CryptoKey. */
export const handleOf = (key: unknown): number | undefined => handle(key);

const handles = new Handles("forgetKeys");

export function toCryptoKey(metadata: KeyMetadata): CryptoKey {
  const key = new CryptoKey(TOKEN, metadata);
  handles.add(metadata.handle, key);
  return key;
}

addPlatformType({
  owns: (value) => handle(value) !== undefined,
  clone: (key) => {
    const response = requestFromWorker("crypto", JSON.stringify({ method: "cloneKey", args: [handle(key)] }));
    const reply = JSON.parse(typeof response === "string" ? response : "{}") as { readonly value?: KeyMetadata };
    if (reply.value === undefined) throw createDomException("The key could not be cloned", "DataCloneError");
    return toCryptoKey(reply.value);
  },
});

showAs("CryptoKey", CryptoKey, (key) => pickFields(key, ["type", "extractable", "algorithm", "usages"]));
