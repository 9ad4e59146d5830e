// One call inside the worker: its isolate, its meters and caps, and the messages that tell the host how it goes.
import type { InvokeHeader } from "./guest-protocol.ts";
import type { IsolatePool } from "./isolate-pool.ts";
import type { Limits } from "./limits.ts";
import {
  type CallMessage,
  type LearnMessage,
  LOG_LEVELS,
  type LogLevel,
  type StopReason,
  type WorkerMessage,
  type WorkerUsage,
} from "./protocol.ts";
import type { GuestEnd, GuestListener, LoadableBundle, ToolIsolate } from "./tool-isolate.ts";

/** Sends a message to the host. */
export type Send = (message: WorkerMessage, parts?: readonly (string | Uint8Array)[]) => void;

const isLogLevel = (level: string): level is LogLevel => LOG_LEVELS.includes(level as LogLevel);
const DENIED = JSON.stringify({ ok: false, code: "CAPABILITY_DENIED", message: "This capability was not granted" });
const TOO_LARGE = JSON.stringify({
  ok: false,
  code: "PARAM_INVALID",
  message: "The input of this host call is too large",
});

/** Runs one `call` or `learn`. Sends exactly one `ended` and then exactly one `released`. */
export class ActiveCall implements GuestListener {
  readonly #message: CallMessage | LearnMessage;
  readonly #bundle: LoadableBundle;
  readonly #pool: IsolatePool;
  readonly #send: Send;
  #isolate: ToolIsolate | undefined;
  #phase: "load" | "execute" = "load";
  #cancelled = false;
  #cpuMsBefore = 0;
  #cpuMs = 0;
  #logBytes = 0;
  #logLines = 0;
  #logsDropped = 0;
  #startMs = 0;
  #executeMs = 0;

  constructor(message: CallMessage | LearnMessage, bundle: LoadableBundle, pool: IsolatePool, send: Send) {
    this.#message = message;
    this.#bundle = bundle;
    this.#pool = pool;
    this.#send = send;
  }

  get #limits(): Limits {
    return this.#message.limits;
  }

  /** Resolves when nothing of the call runs any more. Never rejects. */
  async run(input: string): Promise<void> {
    const { seq } = this.#message;
    let end: GuestEnd;
    let codeCache: Uint8Array | undefined;
    try {
      end = await this.#runToEnd(input);
      if (this.#message.type === "learn" && end.outcome === "output" && (await this.#isolate?.settle())) {
        codeCache = this.#isolate?.makeCodeCache(this.#bundle);
        // The process that learned a bundle is often the one that runs it: it has no other way to hear of the cache.
        if (codeCache !== undefined) this.#pool.addBundle(this.#bundle.sha256, this.#bundle.code, codeCache);
      }
    } catch {
      end = { outcome: "isolate-failed", text: "" };
    }
    const reusable = await this.#finishMeters();
    const parts = codeCache === undefined ? [end.text] : [end.text, codeCache];
    this.#send({ type: "ended", seq, outcome: end.outcome, phase: this.#phase, usage: this.#usage() }, parts);
    await this.#giveBack(reusable);
    this.#send({ type: "released", seq });
  }

  async #runToEnd(input: string): Promise<GuestEnd> {
    const started = performance.now();
    const message = this.#message;
    const warm =
      message.type === "call" && message.isolation === "tool" ? this.#pool.takeIdle(this.#warmKey) : undefined;
    if (warm === undefined) {
      this.#send({ type: "preparing", seq: message.seq });
      const failure = await this.#prepare();
      this.#startMs = performance.now() - started;
      if (failure !== undefined) return failure;
      this.#send({ type: "started", seq: message.seq });
    } else {
      this.#isolate = warm;
      this.#cpuMsBefore = warm.cpuMs;
      this.#startMs = performance.now() - started;
    }
    if (this.#isolate === undefined || this.#cancelled) return { outcome: "cancelled", text: "" };
    this.#phase = message.type === "learn" ? "load" : "execute";
    const begun = performance.now();
    const end =
      message.type === "learn"
        ? await this.#isolate.describe()
        : await this.#isolate.call(JSON.stringify(this.#invokeHeader(message)), input, this);
    this.#executeMs = performance.now() - begun;
    return end;
  }

  /** A new isolate with the bundle in it; undefined when it worked. */
  async #prepare(): Promise<GuestEnd | undefined> {
    this.#isolate = this.#pool.create(this.#limits.memoryMiB);
    const { failure } = await this.#pool.load(this.#isolate, this.#bundle, this);
    return failure;
  }

  #invokeHeader(message: CallMessage): InvokeHeader {
    const { outputBytes, logBytes, logLines, hostCalls, pendingHostCalls, timers } = message.limits;
    const { callId, tenantId, granted, denied } = message;
    return { callId, tenantId, granted, denied, outputBytes, logBytes, logLines, hostCalls, pendingHostCalls, timers };
  }

  get #warmKey(): string {
    const tenantId = this.#message.type === "call" ? this.#message.tenantId : "";
    return JSON.stringify([tenantId, this.#bundle.sha256, this.#limits.memoryMiB]);
  }

  /** Called a hundred times a second while the call runs. */
  checkCpu(): void {
    const isolate = this.#isolate;
    if (isolate === undefined || isolate.isDisposed || !isolate.isRunning) return;
    this.#cpuMs = isolate.cpuMs - this.#cpuMsBefore;
    if (this.#cpuMs > this.#limits.cpuMs) this.#stop("cpu");
  }

  /** The host has ended the call. */
  cancel(): void {
    this.#cancelled = true;
    this.#stop("cancelled");
  }

  #stop(reason: StopReason): void {
    const isolate = this.#isolate;
    if (isolate === undefined) return;
    if (!isolate.isDisposed) this.#cpuMs = isolate.cpuMs - this.#cpuMsBefore;
    void isolate.dispose(reason);
  }

  deliver(requestId: number, envelope: string): void {
    this.#isolate?.deliver(requestId, envelope);
  }

  onLog(level: string, text: string): void {
    const { logBytes, logLines } = this.#limits;
    this.#logLines += 1;
    this.#logBytes += text.length;
    if (!isLogLevel(level) || this.#logLines > logLines || this.#logBytes > logBytes) {
      this.#logsDropped += 1;
      return;
    }
    this.#send({ type: "log", seq: this.#message.seq, level, time: Date.now() }, [text]);
  }

  onProgress(text: string): void {
    if (text.length <= 4_096) this.#send({ type: "progress", seq: this.#message.seq }, [text]);
  }

  onCapability(requestId: number, name: string, text: string): void {
    const message = this.#message;
    const granted = message.type === "call" && (name === "log" || message.granted.includes(name));
    if (!granted) this.deliver(requestId, DENIED);
    else if (text.length > this.#limits.inputBytes) this.deliver(requestId, TOO_LARGE);
    else this.#send({ type: "capability", seq: message.seq, requestId, name }, [text]);
  }

  /** Reads the meters once the guest has left; false when its isolate cannot be used again. */
  async #finishMeters(): Promise<boolean> {
    const isolate = this.#isolate;
    if (isolate === undefined || isolate.isDisposed) return false;
    const settled = await isolate.settle();
    if (isolate.isDisposed) return false;
    this.#cpuMs = isolate.cpuMs - this.#cpuMsBefore;
    return settled;
  }

  #usage(): WorkerUsage {
    return {
      cpuMs: Math.max(0, this.#cpuMs),
      heapBytes: this.#isolate?.heapBytes ?? 0,
      startMs: this.#startMs,
      executeMs: this.#executeMs,
      logsDropped: this.#logsDropped,
    };
  }

  async #giveBack(reusable: boolean): Promise<void> {
    const isolate = this.#isolate;
    if (isolate === undefined) return;
    const message = this.#message;
    const keep = reusable && message.type === "call" && message.isolation === "tool" && this.#phase === "execute";
    if (keep && !isolate.isRunning && !isolate.isDisposed) this.#pool.keep(this.#warmKey, isolate);
    else await isolate.dispose();
  }
}
