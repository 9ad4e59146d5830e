// Implements the cryptography of one isolate with Node's crypto: it owns the isolate's keys, open hashes and jobs on the process's threads,
// until the isolate is disposed. Requests come from an untrusted guest. Failures are returned as values, never thrown into the guest.
import { randomFillSync, webcrypto } from "node:crypto";
import { type JobAnswer, MAX_JOB_BYTES, MAX_JOBS, MAX_WAITING_BYTES } from "../../protocol/crypto-messages.ts";
import { type CryptoAnswer, toAnswer } from "./answer.ts";
import { Codecs } from "./codecs.ts";
import { CryptoError, toFailure } from "./errors.ts";
import { checkSubtleRequest } from "./job-limits.ts";
import { KeyOperations } from "./key-operations.ts";
import { KeyStore } from "./key-store.ts";
import type { NativeJobQueue } from "./native-job-queue.ts";
import { NodeFunctions } from "./node-functions.ts";
import {
  isSubtleMethod,
  parseCryptoRequest,
  RequestReader,
  readSubtleRequest,
  type SubtleRequest,
} from "./read-request.ts";

type CryptoKey = webcrypto.CryptoKey;
type CryptoKeyPair = webcrypto.CryptoKeyPair;

export interface GuestCryptoOptions {
  readonly jobQueue: NativeJobQueue;
  readonly memoryMiB: number;
  /** Sends a job's result (JSON text and bytes) to the guest. Resolves when the guest has received it. */
  readonly answer: (id: number, text: string, buffers: readonly ArrayBuffer[]) => Promise<void>;
  /** Called when a job has been accepted, before it can have a result. */
  readonly onBegun?: (id: number) => void;
  /** Called when no job is left. */
  readonly onIdle: () => void;
}

/** Keys are outside of the isolate's memory limit. They may take a quarter of that limit, and at most this size. */
const MAX_KEY_BYTES = 32 * 1024 * 1024;
/** Methods that run on the worker's main thread without waiting for other jobs. They take about 100 µs. */
const AT_ONCE: ReadonlySet<string> = new Set(["importKey", "exportKey", "getPublicKey"]);
const ACCEPTED = "{}";
const isBuffer = (value: unknown): value is ArrayBuffer => value instanceof ArrayBuffer;
const sizeOf = (buffers: readonly ArrayBuffer[]): number =>
  buffers.reduce((sum, { byteLength }) => sum + byteLength, 0);
const viewOf = ([first]: readonly ArrayBuffer[]): Uint8Array => new Uint8Array(first ?? new ArrayBuffer(0));
const copyOf = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer;
const isPair = (value: unknown): value is CryptoKeyPair =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "privateKey");

interface JobResult {
  readonly answer: JobAnswer;
  readonly buffers: readonly ArrayBuffer[];
}

type Native = (...args: readonly unknown[]) => Promise<unknown>;
const natives = webcrypto.subtle as unknown as { readonly [method: string]: Native };
/** Has `supports` since Node 26. */
const nodeSubtle = globalThis.SubtleCrypto as {
  supports?(method: string, algorithm: unknown, third: unknown): boolean;
};

const ONE_BYTE = new Uint8Array(1);

/**
 * Clears OpenSSL's error queue of this thread. Some operations of Node leave an error in it. The next AES operation finds that error and
 * aborts the process ("Assertion failed: errors->Empty()", Node 26.10, after an RSA key of more than 16,384 bits). Requesting random bytes
 * clears the queue within a microsecond.
 */
function clearStaleErrors(): void {
  randomFillSync(ONE_BYTE);
}

export class GuestCrypto {
  readonly #options: GuestCryptoOptions;
  readonly #keys: KeyStore;
  readonly #functions = new NodeFunctions();
  readonly #keyOperations: KeyOperations;
  readonly #codecs = new Codecs();
  /** Number of waiting and running jobs, and the size of their inputs. */
  #jobs = 0;
  #jobBytes = 0;
  /** Number and size of results that the guest has not received yet. They take memory of the worker. */
  #unread = 0;
  #unreadBytes = 0;
  /** Start times of the running jobs. */
  readonly #running = new Set<{ readonly startedAt: number }>();
  /** Wall-clock time of all finished requests and jobs. */
  #finishedMs = 0;
  #isDisposed = false;

  constructor(options: GuestCryptoOptions) {
    this.#options = options;
    this.#keys = new KeyStore(Math.min(MAX_KEY_BYTES, options.memoryMiB * 256 * 1024));
    this.#keyOperations = new KeyOperations(this.#keys);
  }

  get isBusy(): boolean {
    return this.#jobs > 0;
  }

  /** Number of open keys, hashes and codecs. For tests. */
  get openCount(): number {
    return this.#keys.size + this.#functions.size + this.#keyOperations.keys.size + this.#codecs.size;
  }

  /** Wall-clock time in ms that the process's threads have spent on requests and jobs of this isolate. */
  get busyMs(): number {
    const now = performance.now();
    let ms = this.#finishedMs;
    for (const { startedAt } of this.#running) ms += now - startedAt;
    return ms;
  }

  /** Responds to a synchronous request, while the guest waits. Never throws. */
  respond(text: string, buffers: readonly unknown[]): CryptoAnswer {
    const startedAt = performance.now();
    try {
      const { method, args } = parseCryptoRequest(text);
      const bytes = readBuffers(buffers);
      if (method === "supports") return toAnswer(this.#supports(args, bytes));
      if (method === "cloneKey") return toAnswer(this.#keys.clone(args[0]));
      if (method === "forgetKeys") return this.#forget(args);
      if (method === "openCodec") return toAnswer(this.#codecs.open(args));
      if (method === "closeCodecs") return toAnswer(this.#codecs.close(args));
      if (method === "codecAtOnce") return copyOf(this.#codecs.atOnce(args, viewOf(bytes)));
      if (this.#keyOperations.has(method)) return this.#keyOperations.call(method, args, bytes);
      return this.#functions.call(method, args, bytes);
    } catch (thrown) {
      return JSON.stringify(toFailure(thrown));
    } finally {
      clearStaleErrors();
      this.#finishedMs += performance.now() - startedAt;
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

  /** Starts a job, whose result is sent later with this `id`. Returns a failure as JSON text if the request is invalid. Never throws. */
  begin(id: number, text: string, buffers: readonly unknown[]): string {
    const startedAt = performance.now();
    try {
      const bytes = readBuffers(buffers);
      const size = sizeOf(bytes);
      this.#checkWaiting(size);
      const { method, args } = parseCryptoRequest(text);
      const run = this.#prepare(method, args, bytes);
      this.#jobs += 1;
      this.#jobBytes += size;
      this.#options.onBegun?.(id);
      const task = (): Promise<void> => this.#run(id, size, run);
      if (AT_ONCE.has(method)) void task();
      else this.#options.jobQueue.add(this, task);
      return ACCEPTED;
    } catch (thrown) {
      return JSON.stringify(toFailure(thrown));
    } finally {
      this.#finishedMs += performance.now() - startedAt;
    }
  }

  /**
   * Enforces the limits on jobs, in case tampered guest code does not. The guest starts a job as soon as it has received another's result,
   * but the worker knows of the receipt only when the guest's entry has ended. Therefore twice as many unread results are allowed.
   */
  #checkWaiting(bytes: number): void {
    const hasRoom =
      this.#jobs < MAX_JOBS &&
      this.#unread < 2 * MAX_JOBS &&
      this.#unreadBytes <= 2 * MAX_WAITING_BYTES &&
      (this.#jobs === 0 || this.#jobBytes + bytes <= MAX_WAITING_BYTES);
    if (!hasRoom) throw new CryptoError("QuotaExceededError", "Too many cryptography jobs are pending");
  }

  async #sendResult(id: number, { answer, buffers }: JobResult): Promise<void> {
    const bytes = sizeOf(buffers);
    this.#unread += 1;
    this.#unreadBytes += bytes;
    await this.#options.answer(id, JSON.stringify(answer), buffers);
    this.#unread -= 1;
    this.#unreadBytes -= bytes;
  }

  #prepare(method: string, args: readonly unknown[], buffers: readonly ArrayBuffer[]): () => Promise<JobResult> {
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
      clearStaleErrors();
      return this.#toResult(request, await job);
    };
  }

  /** Runs a job and sends its result. Never rejects. */
  async #run(id: number, size: number, run: () => Promise<JobResult>): Promise<void> {
    if (this.#isDisposed) return;
    const job = { startedAt: performance.now() };
    this.#running.add(job);
    let result: JobResult;
    try {
      result = await run();
    } catch (thrown) {
      result = { answer: toFailure(thrown), buffers: [] };
    }
    clearStaleErrors();
    this.#running.delete(job);
    this.#finishedMs += performance.now() - job.startedAt;
    if (this.#isDisposed) this.#clear();
    else void this.#sendResult(id, result);
    this.#jobs -= 1;
    this.#jobBytes -= size;
    if (this.#jobs === 0) this.#options.onIdle();
  }

  #toResult({ method, args }: SubtleRequest, value: unknown): JobResult {
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
    if (method === "encapsulateBits" || method === "encapsulateKey") return this.#toEncapsulatedResult(value);
    return { answer: { ok: true, type: "value", value }, buffers: [] };
  }

  #toEncapsulatedResult(value: unknown): JobResult {
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

  /** Drops waiting jobs and releases all resources. Running jobs cannot be stopped; `isBusy` is true until they end. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#options.jobQueue.removeWaiting(this);
    this.#clear();
    this.#jobs = this.#running.size;
  }
}

/** @throws {CryptoError} if a value is not an ArrayBuffer or the buffers are too large together */
function readBuffers(buffers: readonly unknown[]): ArrayBuffer[] {
  const read = buffers.filter(isBuffer);
  const size = sizeOf(read);
  if (read.length !== buffers.length) throw new CryptoError("TypeError", "Expected ArrayBuffers");
  if (size > MAX_JOB_BYTES) {
    throw new CryptoError("QuotaExceededError", `The input of an operation must have at most ${MAX_JOB_BYTES} bytes`);
  }
  return read;
}
