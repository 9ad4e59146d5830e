// The CryptoKeys of one isolate. The guest has only handles and metadata of them; it gets the key material by an export.
import type { webcrypto } from "node:crypto";
import type { KeyMetadata } from "../../protocol/crypto-messages.ts";
import { CryptoError } from "./errors.ts";

type CryptoKey = webcrypto.CryptoKey;

/** Approximate memory overhead of a key. An RSA key of 4096 bits takes about 4 KiB, including OpenSSL's own data. */
const KEY_BYTES = 4 * 1024;
/** Maximum size of an RSA modulus. Operations run on a thread that cannot be stopped; with 8192 bits one takes 30 to 60 ms. */
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

  /** @throws {CryptoError} TypeError if this isolate has no such handle */
  get(handle: unknown): CryptoKey {
    const stored = typeof handle === "number" ? this.#keys.get(handle) : undefined;
    if (stored === undefined) throw new CryptoError("TypeError", "Expected a CryptoKey");
    return stored.key;
  }

  /** @throws {CryptoError} NotSupportedError if the key is too large, QuotaExceededError if the keys take too much memory */
  add(key: CryptoKey, materialBytes = 0): KeyMetadata {
    const { modulusLength = 0, length = 0 } = key.algorithm as AlgorithmFacts;
    if (modulusLength > MAX_MODULUS_BITS) {
      throw new CryptoError("NotSupportedError", `An RSA key must have at most ${MAX_MODULUS_BITS} bits`);
    }
    const bytes = KEY_BYTES + Math.max(materialBytes, Math.ceil(length / 8));
    if (this.#bytes + bytes > this.#maxBytes) {
      throw new CryptoError("QuotaExceededError", "The keys of this call exceed their memory limit");
    }
    this.#bytes += bytes;
    this.#lastHandle += 1;
    this.#keys.set(this.#lastHandle, { key, bytes });
    return toFacts(key, this.#lastHandle);
  }

  /** Returns a new handle for the same key, for the guest's `structuredClone`. */
  clone(handle: unknown): KeyMetadata {
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

function toFacts(key: CryptoKey, handle: number): KeyMetadata {
  const { type, extractable } = key;
  const { publicExponent, ...members } = key.algorithm as AlgorithmFacts;
  const algorithm = publicExponent === undefined ? members : { ...members, publicExponent: [...publicExponent] };
  return { handle, type, extractable, algorithm, usages: [...key.usages] };
}
