// Tracks one running call of an upstream tool: its timeouts, and the progress, logs and requests that the server sends meanwhile.
import type { JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { ProgressSchema } from "../../../sandbox/protocol/worker-messages.ts";
import type { HostFunctionContext } from "../../executors/host-function.ts";
import { notifySafely } from "../../util/host-callback.ts";
import type { TransportExchange } from "./guarded-transport.ts";
import { Listing } from "./listing.ts";
import type { JsonObject } from "./reading/json-size.ts";
import { toVisible } from "./text/visible-text.ts";

const MAX_PROGRESS_LENGTH = 2_048;
const MAX_LOG_LENGTH = 16_384;
/** Largest number of requests that a server may send to its client during one call. */
export const MAX_REQUESTS = 16;
/** Longest time in ms to answer one of them. A user has to read and type; the call's timeouts are paused meanwhile. */
export const ANSWER_MS = 300_000;

/** Maps the log levels of MCP, which are those of syslog. */
const LEVELS: { readonly [level: string]: "debug" | "info" | "warn" | "error" } = {
  debug: "debug",
  info: "info",
  notice: "info",
  warning: "warn",
  error: "error",
  critical: "error",
  alert: "error",
  emergency: "error",
};

/** Aborts its signal when `touch()` was not called for a time. The owner disposes it. */
class IdleTimeout implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #pauses = 0;
  #isDisposed = false;

  constructor(timeoutMs: number) {
    this.#timer = setTimeout(() => {
      if (this.#pauses === 0) this.#controller.abort();
    }, timeoutMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  touch(): void {
    // `refresh()` would start a cleared timer again.
    if (!this.#isDisposed && !this.signal.aborted) this.#timer.refresh();
  }

  pause(): void {
    this.#pauses += 1;
    this.touch();
  }

  resume(): void {
    this.#pauses -= 1;
    this.touch();
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
  }
}

/** A request that a server sent during a call. The call's timeouts are paused until it is disposed. */
class PendingRequest implements Disposable {
  readonly #idleTimeout: IdleTimeout;
  readonly #pausedClock: Disposable;
  readonly #timer: NodeJS.Timeout;
  /** Aborts when the call ends, and after `ANSWER_MS`. */
  readonly signal: AbortSignal;

  /** @param pausedClock ends the pause of the call's own timeout when it is disposed */
  constructor(call: AbortSignal, idleTimeout: IdleTimeout, pausedClock: Disposable) {
    const tooLate = new AbortController();
    this.#timer = setTimeout(() => tooLate.abort(), ANSWER_MS);
    this.signal = AbortSignal.any([call, tooLate.signal]);
    this.#idleTimeout = idleTimeout;
    this.#pausedClock = pausedClock;
    idleTimeout.pause();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#idleTimeout.resume();
    this.#pausedClock[Symbol.dispose]();
  }
}

/** The server no longer accepts the connection and has not processed the request, which may be sent again on a new connection. */
export class StaleConnection extends Error {}

/** A running call. Must be disposed when the call has its result. */
export class UpstreamCall implements TransportExchange, Disposable {
  readonly toolName: string;
  readonly context: HostFunctionContext;
  /** Start of the call, on the clock of `performance.now()`. */
  readonly begunAt: number = performance.now();
  readonly #idleTimeout: IdleTimeout;
  /** Aborts when the call ends, or when the server sent no result or progress for too long. */
  readonly signal: AbortSignal;
  /** The result as the server sent it; undefined before it has arrived. */
  result: JsonObject | undefined;
  /** The latest state of the call's task as the server sent it. */
  task: JsonObject | undefined;
  isLost = false;
  retryAfterMs: number | undefined;
  #requestCount = 0;
  #lastProgress = 0;

  constructor(toolName: string, context: HostFunctionContext, timeoutMs: number) {
    this.toolName = toolName;
    this.context = context;
    this.#idleTimeout = new IdleTimeout(timeoutMs);
    this.signal = AbortSignal.any([context.signal, this.#idleTimeout.signal]);
  }

  get isIdle(): boolean {
    return this.#idleTimeout.signal.aborted;
  }

  /** Whether the call timed out, by its idle timeout or its own timeout. */
  get isLate(): boolean {
    const { signal } = this.context;
    return this.isIdle || (signal.reason as ToolError | undefined)?.code === "TOOL_TIMEOUT";
  }

  lost(): void {
    this.isLost = true;
  }

  readResult(method: string, result: JsonObject): JsonObject | Promise<JsonObject> {
    if (method === "tasks/get") {
      this.task = result;
      return { resultType: "complete" };
    }
    if (method === "tasks/update") return { resultType: "complete" };
    // If the server rejects the headers that were created from the arguments, the SDK's client lists the tools again.
    if (method !== "tools/call") return new Listing(10_000).readResult(method, result);
    this.result = result;
    // The SDK's client does not know tasks.
    const resultType = result.resultType === "task" ? "complete" : result.resultType;
    return { content: [], ...(resultType === undefined ? {} : { resultType }) };
  }

  progress({ progress, total, message }: JsonObject): void {
    this.#idleTimeout.touch();
    const parsed = ProgressSchema.safeParse({
      progress,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message: toVisible(message.slice(0, MAX_PROGRESS_LENGTH)) } : {}),
    });
    if (!parsed.success) return;
    this.#lastProgress = Math.max(this.#lastProgress, parsed.data.progress);
    notifySafely(this.context.onProgress, parsed.data);
  }

  /** Reports that the call's task has changed. A task has no number for its progress. */
  step(message: string | undefined): void {
    this.progress({ progress: Math.floor(this.#lastProgress) + 1, ...(message === undefined ? {} : { message }) });
  }

  /** The server works on the call, although it has not sent progress. */
  touch(): void {
    this.#idleTimeout.touch();
  }

  /**
   * Waits for a time, or until the connection is closed for good. The idle timeout is paused, because the server is not expected to send anything.
   * @throws the reason of the signal, as a rejection, if it aborts
   */
  async sleep(ms: number, closed: AbortSignal): Promise<void> {
    this.signal.throwIfAborted();
    if (ms <= 0 || closed.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    const wake = (): void => resolve();
    for (const signal of [this.signal, closed]) signal.addEventListener("abort", wake, { once: true });
    this.#idleTimeout.pause();
    try {
      await promise;
      this.signal.throwIfAborted();
    } finally {
      clearTimeout(timer);
      for (const signal of [this.signal, closed]) signal.removeEventListener("abort", wake);
      this.#idleTimeout.resume();
    }
  }

  log(level: string, logger: string | undefined, data: unknown): void {
    const mapped = Object.hasOwn(LEVELS, level) ? LEVELS[level] : "info";
    const prefix = logger === undefined ? "" : `${logger.slice(0, 256)}: `;
    if (typeof data === "string") this.context.log(`${prefix}${data.slice(0, MAX_LOG_LENGTH)}`, undefined, mapped);
    else this.context.log(logger?.slice(0, 256) ?? "", data as JsonValue, mapped);
  }

  /** Starts a request of the server. The caller disposes it after the answer. Returns undefined if the call has sent too many. */
  beginRequest(): PendingRequest | undefined {
    this.#requestCount += 1;
    if (this.#requestCount > MAX_REQUESTS) return undefined;
    return new PendingRequest(this.signal, this.#idleTimeout, this.context.holdClock());
  }

  [Symbol.dispose](): void {
    this.#idleTimeout[Symbol.dispose]();
  }
}
