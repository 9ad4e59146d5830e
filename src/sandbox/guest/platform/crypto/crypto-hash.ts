// Streaming hashes and HMACs. Short input is hashed in one call of the worker, long input has a state in the worker.
import { MAX_PIECE_BYTES } from "../../../protocol/crypto-messages.ts";
import { callWorker, callWorkerForBytes } from "./crypto-call.ts";
import { Handles } from "./crypto-handles.ts";

export interface NativeHash {
  update(bytes: Uint8Array): void;
  digest(): Uint8Array<ArrayBuffer>;
  copy(outputLength?: number): NativeHash;
}

/** Input that is buffered here before the worker creates a state: a call costs as much as hashing about 30 KiB. */
const MAX_PENDING_BYTES = 256 * 1024;
/** Names that need no validation. Any other name may be invalid, which must be reported at once. */
const KNOWN = /^(?:md5|sha1|sha224|sha256|sha384|sha512)$/i;
const handles = new Handles("close");

interface Kind {
  readonly once: "hash" | "hmac";
  readonly open: "openHash" | "openHmac";
  readonly args: readonly unknown[];
  /** The key of an HMAC, or empty for a hash. */
  readonly keys: readonly Uint8Array[];
}

class WorkerHash implements NativeHash {
  readonly #kind: Kind;
  #pieces: Uint8Array[] = [];
  #pendingBytes = 0;
  #handle: number | undefined;
  #isDone = false;

  constructor(kind: Kind, handle?: number) {
    this.#kind = kind;
    this.#handle = handle;
    if (handle !== undefined) handles.add(handle, this);
  }

  open(): void {
    const { open, args, keys } = this.#kind;
    this.#handle ??= callWorker(open, args, keys) as number;
    handles.add(this.#handle, this);
  }

  update(bytes: Uint8Array): void {
    this.#checkOpen();
    if (bytes.length === 0) return;
    // Not slice(): a slice of a Buffer shares its memory.
    this.#pieces.push(new Uint8Array(bytes));
    this.#pendingBytes += bytes.length;
    if (this.#pendingBytes > MAX_PENDING_BYTES) this.#flush();
  }

  #checkOpen(): void {
    if (!this.#isDone) return;
    throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
  }

  #takePending(): Uint8Array {
    const pending = new Uint8Array(this.#pendingBytes);
    let offset = 0;
    for (const piece of this.#pieces) {
      pending.set(piece, offset);
      offset += piece.length;
    }
    this.#pieces = [];
    this.#pendingBytes = 0;
    return pending;
  }

  #flush(): void {
    if (this.#handle === undefined) this.open();
    const pending = this.#takePending();
    for (let start = 0; start < pending.length; start += MAX_PIECE_BYTES) {
      callWorker("updateHash", [this.#handle], [pending.subarray(start, start + MAX_PIECE_BYTES)]);
    }
  }

  digest(): Uint8Array<ArrayBuffer> {
    this.#checkOpen();
    this.#isDone = true;
    const { once, args, keys } = this.#kind;
    if (this.#handle === undefined) return callWorkerForBytes(once, args, [...keys, this.#takePending()]);
    this.#flush();
    handles.delete(this.#handle);
    return callWorkerForBytes("digest", [this.#handle], []);
  }

  copy(outputLength?: number): NativeHash {
    this.#checkOpen();
    this.#flush();
    const args = [this.#handle, outputLength ?? null];
    return new WorkerHash(this.#kind, callWorker("copyHash", args, []) as number);
  }
}

function openState(algorithm: string, kind: Kind, mustOpen: boolean): NativeHash {
  const hash = new WorkerHash(kind);
  if (mustOpen || !KNOWN.test(algorithm)) hash.open();
  return hash;
}

/** @throws {Error} for an algorithm that Node does not support */
export function openHash(algorithm: string, { outputLength }: { readonly outputLength?: number } = {}): NativeHash {
  const args = [algorithm, outputLength ?? null];
  return openState(algorithm, { once: "hash", open: "openHash", args, keys: [] }, outputLength !== undefined);
}

/** @throws {Error} for an algorithm that Node does not support */
export function openHmac(algorithm: string, key: Uint8Array): NativeHash {
  return openState(
    algorithm,
    { once: "hmac", open: "openHmac", args: [algorithm], keys: [new Uint8Array(key)] },
    false,
  );
}
