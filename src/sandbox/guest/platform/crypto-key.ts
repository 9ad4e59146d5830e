// CryptoKey: exposes the metadata of a key that the worker owns. The guest has only a number for it, which this file alone reads.
import type { KeyFacts } from "../../protocol/crypto-messages.ts";
import { makeDomException } from "../chunk-loader.ts";
import { ask } from "../host.ts";
import { addPlatformType } from "../platform-types.ts";
import { Handles } from "./crypto-handles.ts";

/** Approximate size of a key in the worker. The guest's object takes the same size, so that V8 collects unreferenced keys. */
const KEY_BYTES = 4_096;
const TOKEN = Symbol("CryptoKey");

let handle: (key: unknown) => number | undefined;

export class CryptoKey {
  readonly #facts: KeyFacts;
  readonly #algorithm: object;
  readonly #usages: readonly string[];
  readonly #weight = new ArrayBuffer(KEY_BYTES);

  constructor(...parts: readonly unknown[]) {
    if (parts[0] !== TOKEN) throw new TypeError("Illegal constructor");
    this.#facts = parts[1] as KeyFacts;
    this.#algorithm = toAlgorithm(this.#facts.algorithm);
    this.#usages = [...this.#facts.usages];
  }

  get type(): string {
    return this.#facts.type;
  }

  get extractable(): boolean {
    return this.#facts.extractable;
  }

  get algorithm(): object {
    return this.#algorithm;
  }

  get usages(): readonly string[] {
    return this.#usages;
  }

  static {
    handle = (key) => {
      const isKey = typeof key === "object" && key !== null && #facts in key && key.#weight !== undefined;
      return isKey ? key.#facts.handle : undefined;
    };
  }
}

for (const name of ["type", "extractable", "algorithm", "usages"]) {
  Object.defineProperty(CryptoKey.prototype, name, { enumerable: true });
}
const tag = { value: "CryptoKey", writable: false, enumerable: false, configurable: true };
Object.defineProperty(CryptoKey.prototype, Symbol.toStringTag, tag);

function toAlgorithm(facts: KeyFacts["algorithm"]): object {
  const { publicExponent } = facts;
  return Array.isArray(publicExponent) ? { ...facts, publicExponent: Uint8Array.from(publicExponent) } : facts;
}

/** Returns undefined if the value is not a CryptoKey. */
export const handleOf = (key: unknown): number | undefined => handle(key);

const handles = new Handles("forgetKeys");

export function toCryptoKey(facts: KeyFacts): CryptoKey {
  const key = new CryptoKey(TOKEN, facts);
  handles.add(facts.handle, key);
  return key;
}

addPlatformType({
  owns: (value) => handle(value) !== undefined,
  clone: (key) => {
    const answer = ask("crypto", JSON.stringify({ method: "cloneKey", args: [handle(key)] }));
    const reply = JSON.parse(typeof answer === "string" ? answer : "{}") as { readonly value?: KeyFacts };
    if (reply.value === undefined) throw makeDomException("The key could not be cloned", "DataCloneError");
    return toCryptoKey(reply.value);
  },
});
