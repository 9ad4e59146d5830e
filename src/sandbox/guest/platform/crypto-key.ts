// CryptoKey: what the guest may know of a key that is the worker's. The key itself is a number here, and only this file reads it.
import type { KeyFacts } from "../../protocol/crypto-messages.ts";
import { makeDomException } from "../chunk-loader.ts";
import { ask } from "../host.ts";
import { addPlatformType } from "../platform-types.ts";
import { Handles } from "./crypto-handles.ts";

/** About what a key takes in the worker. As much of the guest's own memory goes with it, so that V8 looks for keys that nobody holds. */
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

/** Undefined for what is no key. */
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
