// Streaming ciphers. Each has a state in the worker until it is finished.
import { MAX_PIECE_BYTES } from "../../../protocol/crypto-messages.ts";
import { callWorker, callWorkerForBytes } from "./crypto-call.ts";
import { Handles } from "./crypto-handles.ts";

export interface CipherOptions {
  readonly algorithm: string;
  readonly key: Uint8Array;
  /** Null for a mode without an initialization vector. */
  readonly iv: Uint8Array | null;
  readonly decrypt: boolean;
  readonly authTagLength?: number;
}

const handles = new Handles("close");
const invalidState = (method: string): Error =>
  Object.assign(new Error(`Invalid state for operation ${method}`), { code: "ERR_CRYPTO_INVALID_STATE" });

export class NativeCipher {
  readonly #handle: number;
  #tag: Uint8Array<ArrayBuffer> | undefined;
  #isDone = false;

  constructor({ algorithm, key, iv, decrypt, authTagLength }: CipherOptions) {
    const args = [algorithm, decrypt, authTagLength ?? null];
    this.#handle = callWorker("openCipher", args, iv === null ? [key] : [key, iv]) as number;
    handles.add(this.#handle, this);
  }

  #call(method: string, args: readonly unknown[], bytes: readonly Uint8Array[]): void {
    if (this.#isDone) throw invalidState(method);
    callWorker(method, [this.#handle, ...args], bytes);
  }

  update(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
    if (this.#isDone) throw invalidState("update");
    const pieces: Uint8Array[] = [];
    let size = 0;
    for (let start = 0; start === 0 || start < bytes.length; start += MAX_PIECE_BYTES) {
      const piece = bytes.subarray(start, start + MAX_PIECE_BYTES);
      const made = callWorkerForBytes("updateCipher", [this.#handle], [piece]);
      if (bytes.length <= MAX_PIECE_BYTES) return made;
      pieces.push(made);
      size += made.length;
    }
    const all = new Uint8Array(size);
    let offset = 0;
    for (const piece of pieces) {
      all.set(piece, offset);
      offset += piece.length;
    }
    return all;
  }

  final(): Uint8Array<ArrayBuffer> {
    if (this.#isDone) throw invalidState("final");
    this.#isDone = true;
    handles.delete(this.#handle);
    const answer = callWorkerForBytes("endCipher", [this.#handle], []);
    const tagBytes = answer[0] ?? 0;
    if (tagBytes > 0) this.#tag = answer.slice(1, 1 + tagBytes);
    return answer.slice(1 + tagBytes);
  }

  getAuthTag(): Uint8Array<ArrayBuffer> {
    if (this.#tag === undefined) throw invalidState("getAuthTag");
    return this.#tag;
  }

  setAAD(bytes: Uint8Array, plaintextLength?: number): void {
    this.#call("setAad", [plaintextLength ?? null], [bytes]);
  }

  setAuthTag(bytes: Uint8Array): void {
    this.#call("setTag", [], [bytes]);
  }

  setAutoPadding(on: boolean): void {
    this.#call("setPadding", [on], []);
  }
}

/** @throws {Error} for a cipher other than AES or ChaCha20, or for a key or iv of the wrong length */
export const openCipher = (options: CipherOptions): NativeCipher => new NativeCipher(options);
