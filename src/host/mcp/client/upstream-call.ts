// One call of an upstream tool while it is on its way: its clock, and what the server says meanwhile.
import type { JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { ProgressSchema } from "../../../sandbox/protocol/messages.ts";
import type { HostFunctionContext } from "../../executors/host-function.ts";
import { notifySafely } from "../../util/host-callback.ts";
import type { TransportExchange } from "./guarded-transport.ts";
import { Listing } from "./listing.ts";
import type { JsonObject } from "./reading/json-size.ts";
import { toVisible } from "./text/visible-text.ts";

const MAX_PROGRESS_UNITS = 2_048;
const MAX_LOG_UNITS = 16_384;
/** What a server may ask in one call, of a person or a model. */
const MAX_QUESTIONS = 16;
/** So long one answer may take, with the call's clocks standing still: a person reads, thinks and types. */
export const ANSWER_MS = 300_000;

/** MCP's levels are syslog's. */
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

/** Aborts when nothing has been heard for so long. Dispose it. */
class IdleClock implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #held = 0;
  #isOver = false;

  constructor(timeoutMs: number) {
    this.#timer = setTimeout(() => {
      if (this.#held === 0) this.#controller.abort();
    }, timeoutMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  touch(): void {
    // A timer that has been cleared would run again.
    if (!this.#isOver && !this.signal.aborted) this.#timer.refresh();
  }

  hold(isHeld: boolean): void {
    this.#held += isHeld ? 1 : -1;
    this.touch();
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }
}

/** One thing that a server has asked in the middle of a call: the clocks stand until it is answered, or has not been for too long. */
class Question implements Disposable {
  readonly #clock: IdleClock;
  readonly #held: Disposable;
  readonly #timer: NodeJS.Timeout;
  /** Aborts with the call, and when nobody has answered in time. */
  readonly signal: AbortSignal;

  /** @param held the call's own clock, while it stands */
  constructor(call: AbortSignal, clock: IdleClock, held: Disposable) {
    const tooLate = new AbortController();
    this.#timer = setTimeout(() => tooLate.abort(), ANSWER_MS);
    this.signal = AbortSignal.any([call, tooLate.signal]);
    this.#clock = clock;
    this.#held = held;
    clock.hold(true);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#clock.hold(false);
    this.#held[Symbol.dispose]();
  }
}

/** The server knows us no longer, and has not begun with what it was asked: that may be asked again on a new connection. */
export class StaleConnection extends Error {}

/** Dispose it when the call has its result. */
export class UpstreamCall implements TransportExchange, Disposable {
  readonly toolName: string;
  readonly context: HostFunctionContext;
  /** By performance.now(). */
  readonly begunAt: number = performance.now();
  readonly #clock: IdleClock;
  /** Aborts when the call ends, or when nothing has been heard of it for too long. */
  readonly signal: AbortSignal;
  /** The result as the server sent it; undefined until it is there. */
  result: JsonObject | undefined;
  isLost = false;
  #questions = 0;

  constructor(toolName: string, context: HostFunctionContext, timeoutMs: number) {
    this.toolName = toolName;
    this.context = context;
    this.#clock = new IdleClock(timeoutMs);
    this.signal = AbortSignal.any([context.signal, this.#clock.signal]);
  }

  get isIdle(): boolean {
    return this.#clock.signal.aborted;
  }

  /** Whether it has ended by time: nothing was heard for too long, or its own was up. */
  get isLate(): boolean {
    const { signal } = this.context;
    return this.isIdle || (signal.reason as ToolError | undefined)?.code === "TOOL_TIMEOUT";
  }

  lost(): void {
    this.isLost = true;
  }

  readResult(method: string, result: JsonObject): JsonObject | Promise<JsonObject> {
    // Where the server does not take the headers that were made of the arguments, the machinery asks for its tools again.
    if (method !== "tools/call") return new Listing(10_000).readResult(method, result);
    this.result = result;
    const { resultType } = result;
    return { content: [], ...(resultType === undefined ? {} : { resultType }) };
  }

  progress({ progress, total, message }: JsonObject): void {
    this.#clock.touch();
    const parsed = ProgressSchema.safeParse({
      progress,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message: toVisible(message.slice(0, MAX_PROGRESS_UNITS)) } : {}),
    });
    if (parsed.success) notifySafely(this.context.onProgress, parsed.data);
  }

  log(level: string, logger: string | undefined, data: unknown): void {
    const said = Object.hasOwn(LEVELS, level) ? LEVELS[level] : "info";
    const from = logger === undefined ? "" : `${logger.slice(0, 256)}: `;
    if (typeof data === "string") this.context.log(`${from}${data.slice(0, MAX_LOG_UNITS)}`, undefined, said);
    else this.context.log(logger?.slice(0, 256) ?? "", data as JsonValue, said);
  }

  /** What the server asks for in its course; undefined where it has asked too often. Dispose it when there is an answer. */
  asked(): Question | undefined {
    this.#questions += 1;
    if (this.#questions > MAX_QUESTIONS) return undefined;
    return new Question(this.signal, this.#clock, this.context.holdClock());
  }

  [Symbol.dispose](): void {
    this.#clock[Symbol.dispose]();
  }
}
