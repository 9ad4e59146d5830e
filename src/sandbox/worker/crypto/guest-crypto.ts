// Cryptography for one isolate, by Node's own: its keys, its hashes under way, its jobs on the process's threads. Everything ends with the
// isolate. What is asked comes from a hostile guest; what goes back is an answer, never an exception.
import { randomFillSync, webcrypto } from "node:crypto";
import {
  type JobAnswer,
  MAX_JOB_BYTES,
  MAX_JOBS,
  MAX_RANDOM_BYTES,
  MAX_WAITING_BYTES,
} from "../../protocol/crypto-messages.ts";
import type { SeededBytes } from "../seeded-bytes.ts";
import { checkSubtleRequest } from "./caps.ts";
import { Codecs } from "./codecs.ts";
import { KeyOperations } from "./key-operations.ts";
import { KeyStore } from "./key-store.ts";
import type { NativeLanes } from "./native-lanes.ts";
import { NodeFunctions } from "./node-functions.ts";
import { isSubtleMethod, parseRequest, RequestReader, readSubtleRequest, type SubtleRequest } from "./read-request.ts";
import { CryptoRefusal, toFailure } from "./refusal.ts";

type CryptoKey = webcrypto.CryptoKey;
type CryptoKeyPair = webcrypto.CryptoKeyPair;

/** At once: JSON text, or bytes. */
export type CryptoAnswer = string | ArrayBuffer;

export interface GuestCryptoParts {
  readonly lanes: NativeLanes;
  readonly memoryMiB: number;
  /** Where random numbers are to repeat; Node's own unless stated. Keys and signatures are made with Node's in any case. */
  readonly seeded?: SeededBytes | undefined;
  /** Takes a job's answer, as JSON text, and its bytes into the guest; resolves when it is there. */
  readonly answer: (id: number, text: string, buffers: readonly ArrayBuffer[]) => Promise<void>;
  /** No job is left. */
  readonly onIdle: () => void;
}

/** Keys lie outside the isolate's own limit: a quarter of that, and no more than this. */
const MAX_KEY_BYTES = 32 * 1024 * 1024;
/** Done in the worker's main thread, in some 100 µs: they need no thread and wait for none. */
const AT_ONCE: ReadonlySet<string> = new Set(["importKey", "exportKey", "getPublicKey"]);
const ACCEPTED = "{}";
const isBuffer = (value: unknown): value is ArrayBuffer => value instanceof ArrayBuffer;
const sizeOf = (buffers: readonly ArrayBuffer[]): number =>
  buffers.reduce((sum, { byteLength }) => sum + byteLength, 0);
const viewOf = ([first]: readonly ArrayBuffer[]): Uint8Array => new Uint8Array(first ?? new ArrayBuffer(0));
const copyOf = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer;
const isPair = (value: unknown): value is CryptoKeyPair =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "privateKey");

interface Settled {
  readonly answer: JobAnswer;
  readonly buffers: readonly ArrayBuffer[];
}

type Native = (...args: readonly unknown[]) => Promise<unknown>;
const natives = webcrypto.subtle as unknown as { readonly [method: string]: Native };
/** Of Node 26; absent before. */
const nodeSubtle = globalThis.SubtleCrypto as {
  supports?(method: string, algorithm: unknown, third: unknown): boolean;
};

const ONE_BYTE = new Uint8Array(1);

/**
 * OpenSSL keeps its errors in a queue for each thread, and some of what Node does leaves one there. The next AES operation finds it, takes it
 * for its own, and aborts the process ("Assertion failed: errors->Empty()", Node 26.10, after an RSA key of more than 16,384 bits). What asks
 * for random bytes empties the queue, in a microsecond.
 */
function dropStaleErrors(): void {
  randomFillSync(ONE_BYTE);
}

export class GuestCrypto {
  readonly #parts: GuestCryptoParts;
  readonly #keys: KeyStore;
  readonly #functions = new NodeFunctions();
  readonly #keyOperations: KeyOperations;
  readonly #codecs = new Codecs();
  /** Jobs that wait or run, and their bytes. */
  #jobs = 0;
  #jobBytes = 0;
  /** Answers that the guest has not taken: what they hold lies here, whatever the guest does meanwhile. */
  #unread = 0;
  #unreadBytes = 0;
  /** When each of those that run began. */
  readonly #running = new Set<{ readonly begun: number }>();
  /** Spent in the worker's threads for this isolate, but for what runs now. */
  #spentMs = 0;
  #isDisposed = false;

  constructor(parts: GuestCryptoParts) {
    this.#parts = parts;
    this.#keys = new KeyStore(Math.min(MAX_KEY_BYTES, parts.memoryMiB * 256 * 1024));
    this.#keyOperations = new KeyOperations(this.#keys);
  }

  get isBusy(): boolean {
    return this.#jobs > 0;
  }

  /** For tests: what is held for the guest. */
  get held(): number {
    return this.#keys.size + this.#functions.size + this.#keyOperations.keys.size + this.#codecs.size;
  }

  /** Time that the process's threads have been at work for this isolate outside of it, in ms of the wall's clock. */
  get busyMs(): number {
    const now = performance.now();
    let ms = this.#spentMs;
    for (const { begun } of this.#running) ms += now - begun;
    return ms;
  }

  random(bytes: unknown): ArrayBuffer {
    const length = typeof bytes === "number" && bytes >= 0 && bytes <= MAX_RANDOM_BYTES ? Math.trunc(bytes) : 0;
    const buffer = new ArrayBuffer(length);
    const { seeded } = this.#parts;
    if (seeded === undefined) randomFillSync(new Uint8Array(buffer));
    else seeded.fill(new Uint8Array(buffer));
    return buffer;
  }

  /** What is answered while the guest waits. */
  ask(text: string, buffers: readonly unknown[]): CryptoAnswer {
    const begun = performance.now();
    try {
      const { method, args } = parseRequest(text);
      const bytes = readBuffers(buffers);
      if (method === "supports") return JSON.stringify({ ok: true, value: this.#supports(args, bytes) });
      if (method === "cloneKey") return JSON.stringify({ ok: true, value: this.#keys.clone(args[0]) });
      if (method === "forgetKeys") return this.#forget(args);
      if (method === "openCodec") return JSON.stringify({ ok: true, value: this.#codecs.open(args) });
      if (method === "closeCodecs") return JSON.stringify({ ok: true, value: this.#codecs.close(args) });
      if (method === "codecAtOnce") return copyOf(this.#codecs.atOnce(args, viewOf(bytes)));
      if (this.#keyOperations.has(method)) return this.#keyOperations.call(method, args, bytes);
      return this.#functions.call(method, args, bytes);
    } catch (thrown) {
      return JSON.stringify(toFailure(thrown));
    } finally {
      dropStaleErrors();
      this.#spentMs += performance.now() - begun;
    }
  }

  #supports(args: readonly unknown[], buffers: readonly ArrayBuffer[]): boolean {
    const reader = new RequestReader(this.#keys, buffers);
    const [operation, algorithm, third] = args;
    if (typeof operation !== "string" || nodeSubtle.supports === undefined) return false;
    const read = typeof third === "number" || third === null ? third : reader.algorithm(third);
    return nodeSubtle.supports(operation, reader.algorithm(algorithm), read);
  }

  #forget(handles: readonly unknown[]): string {
    for (const handle of handles) {
      if (Array.isArray(handle)) for (const one of handle) this.#keys.delete(one);
    }
    return ACCEPTED;
  }

  /** Begins a job, whose answer comes later under `id`; or refuses it. */
  begin(id: number, text: string, buffers: readonly unknown[]): string {
    const begun = performance.now();
    try {
      const bytes = readBuffers(buffers);
      const size = sizeOf(bytes);
      this.#checkWaiting(size);
      const { method, args } = parseRequest(text);
      const run = this.#prepare(method, args, bytes);
      this.#jobs += 1;
      this.#jobBytes += size;
      const task = (): Promise<void> => this.#run(id, size, run);
      if (AT_ONCE.has(method)) void task();
      else this.#parts.lanes.add(this, task);
      return ACCEPTED;
    } catch (thrown) {
      return JSON.stringify(toFailure(thrown));
    } finally {
      this.#spentMs += performance.now() - begun;
    }
  }

  /**
   * A guest that counts right never meets this. It begins a job when it has taken another's answer, which is known here only when it has
   * left again: so there is room for twice as many.
   */
  #checkWaiting(bytes: number): void {
    const hasRoom =
      this.#jobs < MAX_JOBS &&
      this.#unread < 2 * MAX_JOBS &&
      this.#unreadBytes <= 2 * MAX_WAITING_BYTES &&
      (this.#jobs === 0 || this.#jobBytes + bytes <= MAX_WAITING_BYTES);
    if (!hasRoom) throw new CryptoRefusal("QuotaExceededError", "Too much is waiting already");
  }

  async #give(id: number, { answer, buffers }: Settled): Promise<void> {
    const bytes = sizeOf(buffers);
    this.#unread += 1;
    this.#unreadBytes += bytes;
    await this.#parts.answer(id, JSON.stringify(answer), buffers);
    this.#unread -= 1;
    this.#unreadBytes -= bytes;
  }

  #prepare(method: string, args: readonly unknown[], buffers: readonly ArrayBuffer[]): () => Promise<Settled> {
    if (method === "generateKeyPair") {
      const generate = this.#keyOperations.keys.prepareGenerate(args);
      return async () => ({ answer: { ok: true, type: "value", value: await generate() }, buffers: [] });
    }
    if (method === "codecStep") {
      const step = this.#codecs.prepareStep(args, viewOf(buffers));
      return async () => {
        const { bytes, isMore } = await step();
        return { answer: { ok: true, type: "value", value: isMore }, buffers: [copyOf(bytes)] };
      };
    }
    if (!isSubtleMethod(method)) {
      const run = this.#functions.prepareJob(method, args, buffers);
      return async () => ({ answer: { ok: true, type: "bytes" }, buffers: [await run()] });
    }
    const request = readSubtleRequest(method, args, new RequestReader(this.#keys, buffers));
    checkSubtleRequest(request);
    return async () => {
      const job = (natives[method] as Native).apply(webcrypto.subtle, [...request.args]);
      dropStaleErrors();
      return this.#settle(request, await job);
    };
  }

  /** Never rejects. */
  async #run(id: number, size: number, run: () => Promise<Settled>): Promise<void> {
    if (this.#isDisposed) return;
    const clock = { begun: performance.now() };
    this.#running.add(clock);
    let settled: Settled;
    try {
      settled = await run();
    } catch (thrown) {
      settled = { answer: toFailure(thrown), buffers: [] };
    }
    dropStaleErrors();
    this.#running.delete(clock);
    this.#spentMs += performance.now() - clock.begun;
    if (this.#isDisposed) this.#clear();
    else void this.#give(id, settled);
    this.#jobs -= 1;
    this.#jobBytes -= size;
    if (this.#jobs === 0) this.#parts.onIdle();
  }

  #settle({ method, args }: SubtleRequest, value: unknown): Settled {
    if (isBuffer(value)) return { answer: { ok: true, type: "bytes" }, buffers: [value] };
    if (value instanceof globalThis.CryptoKey) {
      const isGiven = method === "importKey" || method === "unwrapKey";
      const material = isGiven && args[1] instanceof Uint8Array ? args[1].byteLength : 0;
      return { answer: { ok: true, type: "key", key: this.#keys.add(value, material) }, buffers: [] };
    }
    if (isPair(value)) {
      const publicKey = this.#keys.add(value.publicKey);
      return {
        answer: { ok: true, type: "pair", publicKey, privateKey: this.#keys.add(value.privateKey) },
        buffers: [],
      };
    }
    if (method === "encapsulateBits" || method === "encapsulateKey") return this.#settleEncapsulated(value);
    return { answer: { ok: true, type: "value", value }, buffers: [] };
  }

  #settleEncapsulated(value: unknown): Settled {
    const { ciphertext, sharedKey } = value as { ciphertext: ArrayBuffer; sharedKey: ArrayBuffer | CryptoKey };
    const isBytes = isBuffer(sharedKey);
    const answer = {
      ok: true,
      type: "encapsulated",
      sharedKey: isBytes ? undefined : this.#keys.add(sharedKey),
    } as const;
    return { answer, buffers: isBytes ? [ciphertext, sharedKey] : [ciphertext] };
  }

  #clear(): void {
    this.#keys.clear();
    this.#functions.clear();
    this.#keyOperations.clear();
    this.#codecs.clear();
  }

  /** What has not begun never will; what runs on a thread is the only thing left, until it has come to its end. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#parts.lanes.drop(this);
    this.#clear();
    this.#jobs = this.#running.size;
  }
}

/** @throws {CryptoRefusal} */
function readBuffers(buffers: readonly unknown[]): ArrayBuffer[] {
  const read = buffers.filter(isBuffer);
  const size = sizeOf(read);
  if (read.length !== buffers.length) throw new CryptoRefusal("TypeError", "Expected ArrayBuffers");
  if (size > MAX_JOB_BYTES) {
    throw new CryptoRefusal("QuotaExceededError", `One operation may take ${MAX_JOB_BYTES} bytes at most here`);
  }
  return read;
}
