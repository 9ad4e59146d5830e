// Wraps one V8 isolate that contains the prelude and one bundle. Only this folder imports isolated-vm, and its handles never leave it.
import { setImmediate as nextTurn } from "node:timers/promises";
import ivm from "isolated-vm";
import {
  type BootOptions,
  type EnterKind,
  type GuestMessageKind,
  type GuestRequestKind,
  PRELUDE_SCRIPT_NAME,
  TOOL_SCRIPT_NAME,
} from "../../protocol/guest-messages.ts";
import { NO_ANSWER } from "../../protocol/host-messages.ts";
import { PLATFORM_MODULE_NAMES } from "../../protocol/platform-modules.ts";
import type { TurnKind } from "../../protocol/turns.ts";
import { type Deterministic, seedWords } from "../random-bytes.ts";
import type { TurnReport } from "../turns/turn-log.ts";
import { type PlannedTurn, TurnScheduler } from "../turns/turn-scheduler.ts";
import { createEngine, type Engine, type EngineSources, type LoadableBundle } from "./engine.ts";
import {
  createInternalHeader,
  describeReason,
  type GuestCall,
  type GuestDeadline,
  type GuestEnd,
  type GuestListener,
  IGNORE_MESSAGES,
  type IsolateStop,
  isGuestOutcome,
  toBytes,
  toEnd,
} from "./guest-call.ts";
import { GuestRequests } from "./guest-requests.ts";
import { GuestTimers } from "./guest-timers.ts";
import { V8Isolate, type V8IsolateOptions } from "./v8-isolate.ts";

export interface IsolateOptions extends Omit<BootOptions, "deterministic">, V8IsolateOptions {
  /** Initial state of the clock and of random numbers, for repeatable calls. */
  readonly deterministic?: Deterministic | undefined;
}

/**
 * Warm-up tool for code caches. It uses only what most tools use, because each isolate deserializes all functions in the cache. It loads a
 * platform module (DOMException), as most tools do.
 */
const WARM_UP_TOOL = "(async (register) => register({ default: async (input) => DOMException && input }))";
const WARM_UP_HEADER = createInternalHeader(1_024);

/** Longest time in ms that a guest may keep running after its result. Then its isolate is disposed instead of reused. */
const SETTLE_MS = 2;
/** First part of that time in ms, in which the worker polls the state: sleeping and waking up would take longer. */
const SPIN_MS = 0.2;
/** The entry into the guest of each turn. */
const TURN_ENTRIES = {
  load: "load",
  call: "invoke",
  answer: "deliver",
  job: "answer",
  timer: "timer",
  credit: "credit",
  rollback: "rollback",
} as const satisfies { readonly [Kind in TurnKind]: EnterKind };
/**
 * Deadlines that are at least FAR_DEADLINE_MS away are rounded up to a multiple of this time in ms. isolated-vm keeps the timer of each entry
 * until it expires, long after the guest has left, and its timer thread wakes up for each of them unless they expire together (measured).
 */
const DEADLINE_STEP_MS = 20;
const FAR_DEADLINE_MS = 1_000;
/** A reading of the heap is reused until the guest has run for this time in ms. Filling 1 MiB takes about a millisecond. */
const HEAP_READING_MS = 1;

/**
 * Owns one isolate. Use: `boot`, `load`, then any number of `call`s, one after the other. The owner must `dispose` it, which also stops
 * running code.
 *
 * Each entry into the guest is an `apply` on another thread, or an `applySync` on this one. The promise of an `apply`
 * settles when the thread has left the isolate and all microtasks are done (measured). `#running` counts these entries,
 * so that a disposed isolate can be distinguished from one whose code has really stopped.
 */
export class ToolIsolate {
  readonly #engine: Engine;
  readonly #options: IsolateOptions;
  readonly #isolate: V8Isolate;
  readonly #timers = new GuestTimers((id) => void this.#run("timer", undefined, id));
  /** Set for a repeatable call: decides the order in which completions enter the guest. */
  readonly #turns: TurnScheduler<GuestDeadline> | undefined;
  readonly #requests: GuestRequests;
  #enter: ivm.Reference<(kind: EnterKind, at: number | undefined, ...args: unknown[]) => void> | undefined;
  #listener: GuestListener = IGNORE_MESSAGES;
  #finish: ((end: GuestEnd) => void) | undefined;
  // Values that the guest already has. They are not sent again, because each text that crosses the boundary costs time.
  #header = "";
  #loaded = "";
  #tenantId = "";
  #running = 0;
  #enteredAt = 0;
  #heapBytes = 0;
  /** Time in ms in the guest since the last reading of the heap. */
  #unreadMs = Number.POSITIVE_INFINITY;
  #onIdle: (() => void)[] = [];
  /** Pairs of request id and envelope. */
  readonly #deliveries: (number | string)[] = [];
  /** Deadline of these deliveries, if they are for this thread. */
  #deliverUntil: GuestDeadline | undefined;
  #stopReason: IsolateStop | undefined;
  #disposed = false;

  constructor(engine: Engine, options: IsolateOptions) {
    this.#engine = engine;
    this.#options = options;
    const { deterministic } = options;
    this.#turns = deterministic && new TurnScheduler(deterministic, () => queueMicrotask(() => this.#takeTurns()));
    this.#isolate = new V8Isolate(options);
    this.#requests = new GuestRequests({
      engine,
      memoryMiB: options.memoryMiB,
      deterministic,
      answer: (id, text, buffers) => this.#answerJob(id, [id, text, ...buffers]),
      onBegun: (id) => this.#turns?.begin("job", id),
      onIdle: () => this.#becomeIdle(),
    });
  }

  /** Runs the prelude. It is trusted code, so running it synchronously is safe. */
  boot(): void {
    const engine = this.#engine;
    const { features, coarseTime, deterministic } = this.#options;
    const seeded = deterministic && { now: deterministic.now, words: seedWords(deterministic.seed) };
    const isRollback = deterministic?.rollbackMs !== undefined;
    const options: BootOptions = { features, coarseTime, deterministic: seeded, ...(isRollback ? { isRollback } : {}) };
    const boot = this.#isolate.evaluate(engine.preludeSource, PRELUDE_SCRIPT_NAME, engine.preludeCache);
    const receive = (kind: unknown, a: unknown, b: unknown, c: unknown, ...rest: unknown[]): void =>
      this.#receive(kind as GuestMessageKind, a, b, c, rest);
    const post = new ivm.Callback(
      (...message: Parameters<typeof receive>) => {
        receive(...message);
        // isolated-vm calls this outside of Node's callbacks, so nothing else would run the ticks that send what the guest has posted.
        setImmediate(runTicks);
      },
      { ignored: true },
    );
    const postNow = new ivm.Callback(
      (...message: Parameters<typeof receive>) => {
        try {
          receive(...message);
        } catch {
          // The guest must not see this thread's error. A message that cannot be sent is lost with the process's socket.
        }
      },
      { sync: true },
    );
    const request = new ivm.Callback(
      (kind: unknown, ...args: unknown[]) =>
        this.#disposed ? undefined : this.#requests.answer(kind as GuestRequestKind, args),
      { sync: true },
    );
    this.#enter = boot.applySync(undefined, [post, postNow, request, JSON.stringify(options)], {
      result: { reference: true },
    }) as ivm.Reference;
  }

  /**
   * Creates V8's code cache of the prelude, synchronously. A complete call of the warm-up tool runs first, so that the cache contains the
   * functions that most calls need. With a cache made right after boot, a fresh isolate took a third longer (measured). A start-up snapshot
   * instead of the cache won 2 to 6 % at most, and V8 aborted with the prelude booted in it (measured).
   */
  createPreludeCache(): Uint8Array {
    this.boot();
    this.#loadWarmUpTool();
    this.#enter?.applySync(undefined, ["invoke", undefined, "{}", "call", WARM_UP_HEADER, "tenant"]);
    return this.#isolate.makeCache(this.#engine.preludeSource, PRELUDE_SCRIPT_NAME);
  }

  /** Loads the warm-up tool synchronously, in the same way as a prewarmed tool. */
  #loadWarmUpTool(...modules: unknown[]): void {
    const evaluate = this.#isolate.evaluate(WARM_UP_TOOL, TOOL_SCRIPT_NAME);
    const args = [evaluate.derefInto(), WARM_UP_HEADER, ...(modules as string[])];
    this.#enter?.applySync(undefined, ["load", undefined, ...args]);
  }

  /** Creates V8's code cache of the bundle, including the functions that have run so far. Must be called while the guest is idle. */
  makeCodeCache(bundle: LoadableBundle): Uint8Array {
    return this.#isolate.makeCache(bundle.code, TOOL_SCRIPT_NAME);
  }

  /** Opens a DevTools session. Must be called before tool code is in the isolate. */
  openInspector(onMessage: (text: string) => void): void {
    this.#isolate.openInspector(onMessage);
  }

  /** Sends a DevTools message to the isolate. */
  inspect(message: string): void {
    if (!this.isDisposed) this.#isolate.inspect(message);
  }

  get isDisposed(): boolean {
    return this.#disposed || this.#isolate.isDisposed;
  }

  /** Whether V8 ended the isolate for its memory limit, possibly after the guest returned its result. */
  get isOutOfMemory(): boolean {
    if (this.#stopReason !== undefined) return this.#stopReason === "memory";
    return this.#isolate.isDisposed;
  }

  /** Whether this bundle was the last one to be loaded. */
  hasLoaded({ sha256 }: LoadableBundle): boolean {
    return this.#loaded === sha256;
  }

  get hasTimers(): boolean {
    return this.#timers.size > 0 || this.#turns?.hasTimers === true;
  }

  /** Returns the turns of a recorded call that were not reported yet. */
  takeTurnReport(): TurnReport | undefined {
    return this.#turns?.takeReport();
  }

  /** Initial state of a recorded call, with which it can be replayed. */
  get recordedStart(): { readonly seed: string; readonly now: number } | undefined {
    const { deterministic } = this.#options;
    return deterministic?.mode === "record" ? deterministic : undefined;
  }

  /** Whether a thread may be executing guest code or a cryptography job of the guest. */
  get isRunning(): boolean {
    return this.#running > 0 || this.#requests.isBusy;
  }

  /**
   * Wall-clock time in ms that threads have spent in this isolate or on its synchronous requests and jobs. It equals the CPU time only if
   * there is a core for each thread. V8's own counter is paused while the guest waits for a response.
   */
  get busyMs(): number {
    return this.isDisposed ? 0 : this.#isolate.busyMs + this.#requests.busyMs;
  }

  /**
   * Size in bytes of the V8 heap and array buffers in use. 0 while the guest runs, because a reading would wait for it. A reading takes 6
   * to 17 µs, a large part of a warm call, so it is reused until the guest has run for HEAP_READING_MS.
   */
  get heapBytes(): number {
    if (this.isDisposed || this.#running > 0) return 0;
    if (this.#unreadMs > HEAP_READING_MS) {
      try {
        this.#heapBytes = this.#isolate.readHeapBytes();
        this.#unreadMs = 0;
      } catch {
        // The isolate exceeded its memory limit after the guest's code had stopped. V8 detects this and ends the isolate on the next entry.
        void this.dispose("memory");
        return 0;
      }
    }
    return this.#heapBytes;
  }

  /**
   * Compiles the bundle and evaluates the tool's top level.
   * @param header InvokeHeader of the next calls. If given, the prelude runs all steps of a call except the tool, to warm up
   */
  async load(bundle: LoadableBundle, listener: GuestListener, header?: string): Promise<GuestEnd> {
    this.#listener = listener;
    this.#loaded = "";
    try {
      const evaluate = await this.#isolate.compileBundle(bundle);
      this.#requests.usedModules = bundle.modules;
      const modules = [...bundle.modules].flatMap((name) => [
        name,
        this.#isolate.compileModule(this.#engine.modules, name).derefInto(),
      ]);
      this.#header = header ?? "";
      const args = [evaluate.derefInto(), this.#header, ...modules];
      const end = await (this.#turns === undefined
        ? this.#exchange(() => void this.#run("load", undefined, ...args))
        : this.#exchangeTurn("load", args));
      if (end.outcome === "ready") this.#loaded = bundle.sha256;
      return end;
    } catch {
      return this.#stopped("isolate-failed");
    }
  }

  /** Evaluates all platform modules synchronously and creates their V8 code caches, in the order of PLATFORM_MODULE_NAMES. */
  createModuleCaches(): Uint8Array[] {
    this.boot();
    const { modules } = this.#engine;
    this.#loadWarmUpTool(
      ...PLATFORM_MODULE_NAMES.flatMap((name) => [name, this.#isolate.compileModule(modules, name).derefInto()]),
    );
    return PLATFORM_MODULE_NAMES.map((name) => this.#isolate.makeCache(modules.source(name), PRELUDE_SCRIPT_NAME));
  }

  /** Returns the tool's definition as JSON text. */
  describe(): Promise<GuestEnd> {
    return this.#exchange(() => void this.#run("describe", undefined));
  }

  /** Runs one call. */
  call(call: GuestCall, listener: GuestListener): Promise<GuestEnd> {
    this.#listener = listener;
    const { header, input, callId, tenantId, bytes, stream, until } = call;
    if (this.#turns !== undefined) return this.#callLater(call);
    if (until !== undefined && bytes === undefined && stream !== true && !this.isRunning) {
      const args = [input, callId, ...this.#takeChanged(header, tenantId)];
      return this.#exchange(() => {
        this.#runNow(until, "invoke-now", undefined, ...args);
        this.#reportLeft();
      });
    }
    const ended = this.#callLater(call);
    if (until !== undefined) this.#reportLeft();
    return ended;
  }

  /** Runs one call on another thread. */
  #callLater({ header, input, callId, tenantId, bytes, stream, until }: GuestCall): Promise<GuestEnd> {
    const [newHeader, newTenantId] = this.#takeChanged(header, tenantId);
    const args: unknown[] = [input, callId];
    if (bytes !== undefined || stream === true) {
      const parts = bytes === undefined ? [] : [bytes.header, copyIn(bytes.data)];
      args.push(newHeader, newTenantId, stream === true, ...parts);
    } else if (this.#turns !== undefined || newHeader !== undefined || newTenantId !== undefined) {
      args.push(newHeader, newTenantId);
    }
    if (this.#turns !== undefined) return this.#exchangeTurn("call", args, until);
    return this.#exchange(() => void this.#run("invoke", undefined, ...args));
  }

  /** Returns the header and the tenant if the guest does not have them from an earlier call, and remembers them. */
  #takeChanged(header: string, tenantId: string): readonly [header: string | undefined, tenantId: string | undefined] {
    const changed = [
      header === this.#header ? undefined : header,
      tenantId === this.#tenantId ? undefined : tenantId,
    ] as const;
    this.#header = header;
    this.#tenantId = tenantId;
    return changed;
  }

  /** Lets a streaming tool produce this number of further chunks. */
  credit(chunks: number): void {
    if (this.#turns === undefined) void this.#run("credit", undefined, chunks);
    else this.#turns.credit(chunks);
  }

  /**
   * Delivers a capability's envelope to the guest. Those of one turn share an entry, which takes longer than reading an envelope.
   * @param until runs the guest on this thread, and ends it then
   * @param latencyMs how long the capability took in the recording, for a call that is rehearsed
   */
  deliver(requestId: number, envelope: string, until?: GuestDeadline, latencyMs?: number): void {
    if (this.#turns !== undefined) {
      if (envelope === NO_ANSWER) {
        this.#turns.leaveOpen(requestId);
        if (until !== undefined) this.#reportLeft();
        return;
      }
      const isLate = until !== undefined && this.#running > 0;
      const timing = {
        ...(latencyMs === undefined ? {} : { latencyMs }),
        ...(until === undefined || isLate ? {} : { until }),
      };
      this.#turns.complete("answer", requestId, [requestId, envelope], timing);
      if (isLate) this.#reportLeft();
      return;
    }
    this.#deliverUntil = until ?? this.#deliverUntil;
    if (this.#deliveries.push(requestId, envelope) === 2) queueMicrotask(() => this.#deliverAll());
  }

  #deliverAll(): void {
    const until = this.#deliverUntil;
    this.#deliverUntil = undefined;
    const deliveries = this.#deliveries.splice(0);
    if (until === undefined || this.isRunning) void this.#run("deliver", undefined, ...deliveries);
    else this.#runNow(until, "deliver-now", undefined, ...deliveries);
    if (until !== undefined) this.#reportLeft();
  }

  /** Waits briefly for the guest to stop after its result. Returns false if it still runs; then the caller should dispose the isolate. */
  async settle(withinMs: number = SETTLE_MS): Promise<boolean> {
    // The guest usually stops within microseconds of its result. Sleeping would take longer.
    for (const until = performance.now() + SPIN_MS; this.isRunning && performance.now() < until; ) await nextTurn();
    if (!this.isRunning) return true;
    let timer: NodeJS.Timeout | undefined;
    const timedOut = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
    });
    await Promise.race([this.#idle(), timedOut]);
    clearTimeout(timer);
    return !this.isRunning;
  }

  /** Clears the listener and the timers of the last call. */
  detachCall(): void {
    this.#listener = IGNORE_MESSAGES;
    this.#timers.clear();
    this.#turns?.clear();
  }

  /**
   * Disposes the isolate. A running entry ends with `reason`. Resolves when the guest's code has really stopped. Some guest code never
   * stops; then only the end of the process stops it.
   */
  dispose(reason: IsolateStop = "cancelled"): Promise<void> {
    this.#stopReason ??= reason;
    if (!this.#disposed) {
      this.#disposed = true;
      this.#timers.clear();
      this.#turns?.clear();
      this.#listener = IGNORE_MESSAGES;
      this.#requests.dispose();
      this.#isolate.dispose();
      this.#finish?.(this.#stopped(reason));
    }
    return this.#idle();
  }

  #stopped(fallback: IsolateStop): GuestEnd {
    // V8 disposes an isolate by itself only for its memory limit.
    const reason = this.#stopReason ?? (this.#isolate.isDisposed ? "memory" : fallback);
    return { outcome: reason, text: "" };
  }

  #idle(): Promise<void> {
    if (!this.isRunning) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  #becomeIdle(): void {
    if (this.isRunning) return;
    const waiting = this.#onIdle;
    this.#onIdle = [];
    for (const resolve of waiting) resolve();
  }

  /**
   * Makes the guest do something that has an end: load, describe or run a tool.
   * @param enter makes the first entry into the guest
   * @param check may replace the end
   */
  #exchange(enter: () => void, check = (end: GuestEnd): GuestEnd => end): Promise<GuestEnd> {
    return new Promise((resolve) => {
      this.#finish = (end) => {
        this.#finish = undefined;
        resolve(check(end));
      };
      if (this.isDisposed) this.#finish(this.#stopped("isolate-failed"));
      else enter();
    });
  }

  /** As `#exchange`, for a repeatable call. */
  #exchangeTurn(kind: "load" | "call", args: readonly unknown[], until?: GuestDeadline): Promise<GuestEnd> {
    return this.#exchange(
      () => this.#turns?.start(kind, args, until),
      (end) => this.#checkTurns(kind, end),
    );
  }

  /** Replaces the end of a call that did not need all turns of its recording. */
  #checkTurns(kind: "load" | "call", end: GuestEnd): GuestEnd {
    const isDone = kind === "call" && isGuestOutcome(end.outcome);
    const divergence = isDone ? this.#turns?.checkEnd() : this.#turns?.divergence;
    return divergence === undefined ? end : { outcome: "diverged", text: JSON.stringify(divergence) };
  }

  /** Runs the turns that can start now. Each starts when the guest's code of the previous one has ended. */
  #takeTurns(): void {
    const turns = this.#turns;
    // Between the load and the call, nothing runs: a call's turns must not depend on when it starts.
    while (turns !== undefined && this.#running === 0 && this.#finish !== undefined && !this.isDisposed) {
      const turn = turns.next();
      if (turn === undefined) {
        if (turns.divergence !== undefined) void this.dispose("diverged");
        return;
      }
      this.#runTurn(turn);
    }
  }

  #runTurn({ kind, at, args, until, onLeft }: PlannedTurn<GuestDeadline>): void {
    const entry = TURN_ENTRIES[kind];
    if (until === undefined) {
      void this.#run(entry, at, ...args).then(onLeft);
      return;
    }
    this.#runNow(until, entry, at, ...args);
    onLeft?.();
    this.#reportLeft();
  }

  #answerJob(id: number, args: readonly unknown[]): Promise<void> {
    const turns = this.#turns;
    if (turns === undefined) return this.#run("answer", undefined, ...args);
    return new Promise((resolve) => turns.complete("job", id, args, { onLeft: resolve }));
  }

  #reportLeft(): void {
    if (this.#finish !== undefined) this.#listener.onLeft?.();
  }

  /**
   * Makes one entry into the guest on this thread. Returns when the guest's code and its microtasks have ended. V8 ends them at the
   * deadline, and the isolate is then disposed.
   */
  #runNow(until: GuestDeadline, kind: EnterKind, at: number | undefined, ...args: unknown[]): void {
    if (this.isDisposed || this.#enter === undefined) return;
    const started = performance.now();
    const isFar = until.at - started >= FAR_DEADLINE_MS;
    const endsAt = isFar ? Math.ceil(until.at / DEADLINE_STEP_MS) * DEADLINE_STEP_MS : until.at;
    const timeout = Math.max(1, Math.ceil(endsAt - started));
    this.#enteredAt = started;
    this.#running += 1;
    let rejection: { readonly reason: unknown } | undefined;
    try {
      this.#enter.applySync(undefined, [kind, at, ...(args as string[])], { timeout });
    } catch (reason) {
      rejection = { reason };
    }
    this.#running -= 1;
    const now = performance.now();
    this.#unreadMs += now - started;
    if (this.#isolate.isDisposed) this.#finish?.(this.#stopped("isolate-failed"));
    // A guest can fake the error of a timeout, but not the time.
    else if (rejection !== undefined && now - started >= timeout) void this.dispose(until.reason);
    // As in #run, an unhandled rejection of the guest.
    else if (rejection !== undefined && this.#finish !== undefined) {
      void this.#run("unhandled", undefined, describeReason(rejection.reason));
    }
    this.#becomeIdle();
  }

  /** Makes one entry into the guest. Resolves when the thread has left the isolate. Never rejects. */
  async #run(kind: EnterKind, at: number | undefined, ...args: unknown[]): Promise<void> {
    if (this.isDisposed || this.#enter === undefined) return;
    if (this.#running === 0) this.#enteredAt = performance.now();
    this.#running += 1;
    const exchange = this.#finish;
    // A rejection means an unhandled promise rejection in the guest. The guest can cause one at will, so it does not end the exchange; only
    // the end of the isolate does. isolated-vm has copied the reason, which goes back to the guest to be logged.
    const onRejected = (reason: unknown): void => {
      const isOpen = exchange !== undefined && this.#finish === exchange;
      if (isOpen && kind !== "unhandled") void this.#run("unhandled", undefined, describeReason(reason));
      onLeft();
    };
    const onLeft = (): void => {
      this.#running -= 1;
      if (this.#isolate.isDisposed) this.#finish?.(this.#stopped("isolate-failed"));
      if (this.#running > 0) return;
      this.#unreadMs += performance.now() - this.#enteredAt;
      this.#becomeIdle();
      this.#takeTurns();
    };
    await this.#enter.apply(undefined, [kind, at, ...(args as string[])]).then(onLeft, onRejected);
  }

  #receive(kind: GuestMessageKind, a: unknown, b: unknown, c: unknown, rest: readonly unknown[]): void {
    if (this.#disposed) return;
    if (kind === "done" && isGuestOutcome(a) && typeof b === "string") {
      this.#finish?.(rest.length === 0 ? { outcome: a, text: b } : toEnd(a, b, [c, ...rest]));
    } else if (kind === "yield" && typeof a === "string") {
      const bytes = toBytes(b, c);
      this.#turns?.sendChunk(a.length + (bytes?.data.byteLength ?? 0));
      this.#listener.onChunk?.(a, bytes);
    } else if (kind === "log" && typeof a === "string" && typeof b === "string")
      this.#listener.onLog(a, b, typeof c === "string" ? c : undefined);
    else if (kind === "progress" && typeof a === "string") this.#listener.onProgress(a);
    else if (kind === "span" && typeof a === "string") this.#listener.onSpan?.(a);
    else if (kind === "timer" && typeof a === "number" && typeof b === "number") {
      if (this.#turns === undefined) this.#timers.set(a, b);
      else this.#turns.setTimer(a, b);
    } else if (kind === "capability" && typeof a === "number" && typeof b === "string" && typeof c === "string") {
      this.#turns?.begin("answer", a);
      this.#listener.onCapability(a, b, c);
    }
  }
}

/** For setImmediate(): Node runs the ticks that wait after each callback. */
function runTicks(): void {}

/** Copies bytes into the guest's memory. */
const copyIn = (data: Uint8Array): unknown => new ivm.ExternalCopy(new Uint8Array(data)).copyInto({ release: true });

/** Creates the code cache of the prelude. Only in a process in which no tool has run: V8 does not validate code caches (CVE-2022-39266). */
export function createPreludeCache(sources: Omit<EngineSources, "preludeCache">): Uint8Array {
  const engine = createEngine({ ...sources, preludeCache: new Uint8Array(0) });
  return withIsolate(engine, (isolate) => isolate.createPreludeCache());
}

/** Creates the code caches of all platform modules. Only in a process in which no tool has run, as for `createPreludeCache`. */
export function createModuleCaches(engine: Engine): Uint8Array[] {
  return withIsolate(engine, (isolate) => isolate.createModuleCaches());
}

function withIsolate<Made>(engine: Engine, make: (isolate: ToolIsolate) => Made): Made {
  const isolate = new ToolIsolate(engine, { memoryMiB: 128, features: [], coarseTime: false });
  try {
    return make(isolate);
  } finally {
    void isolate.dispose();
  }
}
