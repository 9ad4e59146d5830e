// The keys of one isolate. A guest knows them by numbers; what they are made of it gets only by exporting them.
import type { webcrypto } from "node:crypto";
import type { KeyFacts } from "../../protocol/crypto-messages.ts";
import { CryptoRefusal } from "./refusal.ts";

type CryptoKey = webcrypto.CryptoKey;

/** What a key takes beside its own bytes, about: an RSA key of 4096 bits holds some 4 KiB, with what OpenSSL keeps for it. */
const KEY_BYTES = 4 * 1024;
/** A key's operations run in a thread that cannot be stopped; with 8192 bits one takes 30 to 60 ms. */
const MAX_MODULUS_BITS = 8_192;

interface StoredKey {
  readonly key: CryptoKey;
  readonly bytes: number;
}

interface AlgorithmFacts {
  readonly modulusLength?: number;
  readonly length?: number;
  readonly publicExponent?: Uint8Array;
}

export class KeyStore {
  readonly #keys = new Map<number, StoredKey>();
  readonly #maxBytes: number;
  #bytes = 0;
  #lastHandle = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#keys.size;
  }

  /** @throws {CryptoRefusal} TypeError for what is no handle of this isolate's */
  get(handle: unknown): CryptoKey {
    const stored = typeof handle === "number" ? this.#keys.get(handle) : undefined;
    if (stored === undefined) throw new CryptoRefusal("TypeError", "Expected a CryptoKey");
    return stored.key;
  }

  /** @throws {CryptoRefusal} NotSupportedError for a key that is too large to work with, QuotaExceededError when there are too many */
  add(key: CryptoKey, materialBytes = 0): KeyFacts {
    const { modulusLength = 0, length = 0 } = key.algorithm as AlgorithmFacts;
    if (modulusLength > MAX_MODULUS_BITS) {
      throw new CryptoRefusal("NotSupportedError", `An RSA key may have ${MAX_MODULUS_BITS} bits at most`);
    }
    const bytes = KEY_BYTES + Math.max(materialBytes, Math.ceil(length / 8));
    if (this.#bytes + bytes > this.#maxBytes) {
      throw new CryptoRefusal("QuotaExceededError", "The keys of this call take too much memory together");
    }
    this.#bytes += bytes;
    this.#lastHandle += 1;
    this.#keys.set(this.#lastHandle, { key, bytes });
    return toFacts(key, this.#lastHandle);
  }

  /** Of the guest's `structuredClone`: the same key under a number of its own. */
  clone(handle: unknown): KeyFacts {
    return this.add(this.get(handle));
  }

  delete(handle: unknown): void {
    const stored = typeof handle === "number" ? this.#keys.get(handle) : undefined;
    if (stored === undefined) return;
    this.#keys.delete(handle as number);
    this.#bytes -= stored.bytes;
  }

  clear(): void {
    this.#keys.clear();
    this.#bytes = 0;
  }
}

function toFacts(key: CryptoKey, handle: number): KeyFacts {
  const { type, extractable } = key;
  const { publicExponent, ...members } = key.algorithm as AlgorithmFacts;
  const algorithm = publicExponent === undefined ? members : { ...members, publicExponent: [...publicExponent] };
  return { handle, type, extractable, algorithm, usages: [...key.usages] };
}
