// Wraps one V8 isolate that contains the prelude and one bundle. Only this file imports isolated-vm, and its handles never leave this file.
import { setImmediate as nextTurn } from "node:timers/promises";
import ivm from "isolated-vm";
import {
  type BootOptions,
  type EnterKind,
  GUEST_OUTCOMES,
  type GuestMessageKind,
  type GuestOutcome,
  type GuestRequestKind,
  type InvokeHeader,
  PRELUDE_SCRIPT_NAME,
  TOOL_SCRIPT_NAME,
} from "../protocol/guest-messages.ts";
import type { StopReason } from "../protocol/messages.ts";
import {
  isPlatformModuleName,
  PLATFORM_MODULE_NAMES,
  type PlatformModuleName,
  type ReadPlatformModule,
} from "../protocol/platform-modules.ts";
import { type CryptoAnswer, GuestCrypto } from "./crypto/guest-crypto.ts";
import { NativeJobQueue } from "./crypto/native-job-queue.ts";
import { type Deterministic, SeededBytes, seedWords } from "./seeded-bytes.ts";

/** V8's code cache of a script, stored outside of all isolates. */
export interface CodeCache {
  readonly byteLength: number;
  readonly external: ivm.ExternalCopy<ArrayBuffer>;
}

/** Scripts and resources that all isolates of a worker share. */
export interface Engine {
  readonly preludeSource: string;
  /** Undefined if the prelude has no code cache yet. */
  readonly preludeCache: CodeCache | undefined;
  readonly modules: PlatformModules;
  readonly jobQueue: NativeJobQueue;
  /** Files of the Python interpreter by name. Empty unless the process runs Python. */
  readonly assets: Map<string, Uint8Array>;
}

/** Loads the scripts of the platform modules, each at most once, and holds their code caches. */
class PlatformModules {
  readonly #read: ReadPlatformModule;
  readonly #sources = new Map<PlatformModuleName, string>();
  readonly #caches = new Map<PlatformModuleName, CodeCache>();

  /** @param caches trusted code caches in the order of PLATFORM_MODULE_NAMES, from `createModuleCaches`; an empty array for a module without one */
  constructor(read: ReadPlatformModule, caches: readonly Uint8Array[] = []) {
    this.#read = read;
    for (const [index, bytes] of caches.entries()) {
      const name = PLATFORM_MODULE_NAMES[index];
      const cache = toCodeCache(bytes);
      if (name !== undefined && cache !== undefined) this.#caches.set(name, cache);
    }
  }

  /** @throws {Error} if the script cannot be read */
  source(name: PlatformModuleName): string {
    const source = this.#sources.get(name) ?? this.#read(name);
    this.#sources.set(name, source);
    return source;
  }

  cache(name: PlatformModuleName): CodeCache | undefined {
    return this.#caches.get(name);
  }
}

export interface EngineSources {
  readonly preludeSource: string;
  /** Result of `createPreludeCache`, or empty. */
  readonly preludeCache: Uint8Array;
  readonly readPlatformModule: ReadPlatformModule;
  /** Result of `createModuleCaches`, in the order of PLATFORM_MODULE_NAMES. */
  readonly moduleCaches?: readonly Uint8Array[];
}

export function createEngine({ preludeSource, preludeCache, readPlatformModule, moduleCaches }: EngineSources): Engine {
  return {
    preludeSource,
    preludeCache: toCodeCache(preludeCache),
    modules: new PlatformModules(readPlatformModule, moduleCaches),
    jobQueue: new NativeJobQueue(),
    assets: new Map(),
  };
}

/** Copies the cache into memory that V8 can read from any thread. Returns undefined if it is empty. */
function toCodeCache(bytes: Uint8Array): CodeCache | undefined {
  if (bytes.byteLength === 0) return undefined;
  return { byteLength: bytes.byteLength, external: new ivm.ExternalCopy(new Uint8Array(bytes).buffer) };
}

/** A bundle with its code cache. */
export interface LoadableBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: CodeCache | undefined;
  /** Platform modules that the bundle's isolates have used so far. They are compiled in advance for the next isolates. */
  readonly modules: Set<PlatformModuleName>;
}

export function createLoadableBundle(
  sha256: string,
  code: string,
  codeCache: Uint8Array,
  modules: Set<PlatformModuleName> = new Set(),
): LoadableBundle {
  return { sha256, code, codeCache: toCodeCache(codeCache), modules };
}

/** Receives the messages of a running guest. All values are untrusted. */
export interface GuestListener {
  onLog(level: string, text: string, place?: string): void;
  onProgress(text: string): void;
  onCapability(requestId: number, name: string, text: string): void;
  /** Receives a chunk of a streaming call. */
  onChunk?(text: string, bytes: GuestBytes | undefined): void;
  /** An entry for this thread has ended without the call's result. */
  onLeft?(): void;
}

/** Bytes of a JSON value: a BytesHeader as JSON text, and the bytes one after the other. */
export interface GuestBytes {
  readonly header: string;
  readonly data: Uint8Array;
}

/** Result of an entry into the guest. */
export interface GuestEnd {
  readonly outcome: GuestOutcome | StopReason;
  readonly text: string;
  readonly bytes?: GuestBytes | undefined;
  readonly content?: { readonly text: string; readonly bytes: GuestBytes | undefined } | undefined;
}

/** Why an isolate was stopped: a StopReason, or because the chunks of a stream exceed the output limits. */
export type IsolateStop = StopReason | "too-large";

/** Arguments of a call. `header` (an InvokeHeader) and `input` are JSON text. */
export interface GuestCall {
  readonly header: string;
  readonly input: string;
  readonly callId: string;
  readonly tenantId: string;
  /** Bytes of the input, if it contains any. */
  readonly bytes?: GuestBytes | undefined;
  /** Whether to pass on the chunks of a streaming tool as they are produced. */
  readonly stream?: boolean | undefined;
  /** Runs the call on this thread, and ends it then. */
  readonly until?: GuestDeadline | undefined;
}

/** End of the guest's time on this thread. */
export interface GuestDeadline {
  /** Time by performance.now(). */
  readonly at: number;
  readonly reason: StopReason;
}

export interface IsolateOptions extends Omit<BootOptions, "fixed"> {
  readonly memoryMiB: number;
  /** Whether the isolate can be inspected. Only in a worker that the host started for inspection. */
  readonly inspector?: boolean;
  /** Initial state of the clock and of random numbers, for repeatable calls. */
  readonly deterministic?: Deterministic | undefined;
}

/** Longest bundle that is compiled synchronously, in UTF-16 code units. It compiles in less than a millisecond. */
const SMALL_BUNDLE_LENGTH = 64 * 1024;

/** Returns the JSON text of an InvokeHeader for an internal call without capabilities, logs and timers. */
export function createInternalHeader(outputBytes: number): string {
  return JSON.stringify({
    granted: [],
    denied: [],
    outputBytes,
    logBytes: 0,
    logLines: 0,
    maxCapabilityCalls: 0,
    maxPendingCapabilityCalls: 0,
    timers: 0,
  } satisfies InvokeHeader);
}

/**
 * Warm-up tool for code caches. It uses only what most tools use, because each isolate deserializes all functions in the cache. It loads a
 * platform module (DOMException), as most tools do.
 */
const WARM_UP_TOOL = "(async (register) => register({ default: async (input) => DOMException && input }))";
const WARM_UP_HEADER = createInternalHeader(1_024);

const scriptOptions = (filename: string, cache: CodeCache | undefined) => ({
  filename,
  ...(cache === undefined ? {} : { cachedData: cache.external }),
});

const MAX_REASON_LENGTH = 4_096;
/** Line that isolated-vm puts between the isolate's frames and the worker's own in the stack of a copied error. */
const STACK_BOUNDARY = "    at (<isolated-vm boundary>)";

/** Ignores all messages. */
export const IGNORE_MESSAGES: GuestListener = { onLog() {}, onProgress() {}, onCapability() {} };
/** Longest time in ms that a guest may keep running after its result. Then its isolate is disposed instead of reused. */
const SETTLE_MS = 2;
/** First part of that time in ms, in which the worker polls the state: sleeping and waking up would take longer. */
const SPIN_MS = 0.2;
/** A reading of the heap is reused until the guest has run for this time in ms. Filling 1 MiB takes about a millisecond. */
const HEAP_READING_MS = 1;
const isGuestOutcome = (value: unknown): value is GuestOutcome => GUEST_OUTCOMES.includes(value as GuestOutcome);

/**
 * Describes a rejection reason that isolated-vm has copied: a primitive, or an Error of this realm whose stack continues in host files.
 * Returns only the guest's part of the stack, or no stack if isolated-vm has not marked the end of that part.
 */
function describeReason(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason).slice(0, MAX_REASON_LENGTH);
  const end = reason.stack?.indexOf(STACK_BOUNDARY) ?? -1;
  const text = end < 0 ? `${reason.name}: ${reason.message}` : (reason.stack ?? "").slice(0, end).trimEnd();
  return text.slice(0, MAX_REASON_LENGTH);
}

/**
 * Owns one isolate. Use: `boot`, `load`, then any number of `call`s, one after the other. The owner must `dispose` it, which also stops
 * running code.
 *
 * Each entry into the guest is an `apply` on another thread, or an `applySync` on this one. The promise of an `apply` settles when the thread has left the isolate and all microtasks are done (measured).
 * `#running` counts these entries, so that a disposed isolate can be distinguished from one whose code has really stopped.
 */
export class ToolIsolate {
  readonly #engine: Engine;
  readonly #options: IsolateOptions;
  readonly #isolate: ivm.Isolate;
  readonly #context: ivm.Context;
  readonly #timers = new Map<number, NodeJS.Timeout | NodeJS.Immediate>();
  #enter: ivm.Reference<(kind: EnterKind, ...args: unknown[]) => void> | undefined;
  #listener: GuestListener = IGNORE_MESSAGES;
  /** Used platform modules of the loaded bundle. */
  #usedModules: Set<PlatformModuleName> | undefined;
  #finish: ((end: GuestEnd) => void) | undefined;
  // Values that the guest already has. They are not sent again, because each text that crosses the boundary costs time.
  #header = "";
  #loaded = "";
  #tenantId = "";
  #running = 0;
  #enteredAt = 0;
  /** Created on the guest's first request. */
  #crypto: GuestCrypto | undefined;
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
  #inspector: ivm.InspectorSession | undefined;

  constructor(engine: Engine, options: IsolateOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#isolate = new ivm.Isolate({
      __proto__: null,
      memoryLimit: options.memoryMiB,
      inspector: options.inspector === true,
    } as unknown as ivm.IsolateOptions);
    this.#context = this.#isolate.createContextSync({
      __proto__: null,
      inspector: options.inspector === true,
    } as unknown as ivm.ContextOptions);
  }

  /** Runs the prelude. It is trusted code, so running it synchronously is safe. */
  boot(): void {
    const engine = this.#engine;
    const { features, coarseTime, deterministic } = this.#options;
    const fixed = deterministic && { now: deterministic.now, words: seedWords(deterministic.seed) };
    const options: BootOptions = { features, coarseTime, fixed };
    const boot = this.#evaluate(engine.preludeSource, PRELUDE_SCRIPT_NAME, engine.preludeCache);
    const receive = (kind: unknown, a: unknown, b: unknown, c: unknown, ...rest: unknown[]): void =>
      this.#receive(kind as GuestMessageKind, a, b, c, rest);
    const post = new ivm.Callback(receive, { ignored: true });
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
    const ask = new ivm.Callback((kind: unknown, ...args: unknown[]) => this.#answer(kind as GuestRequestKind, args), {
      sync: true,
    });
    this.#enter = boot.applySync(undefined, [post, postNow, ask, JSON.stringify(options)], {
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
    this.#enter?.applySync(undefined, ["invoke", "{}", "call", WARM_UP_HEADER, "tenant"]);
    return this.#makeCache(this.#engine.preludeSource, PRELUDE_SCRIPT_NAME);
  }

  /** Loads the warm-up tool synchronously, in the same way as a prewarmed tool. */
  #loadWarmUpTool(...modules: unknown[]): void {
    const evaluate = this.#evaluate(WARM_UP_TOOL, TOOL_SCRIPT_NAME);
    this.#enter?.applySync(undefined, ["load", evaluate.derefInto(), WARM_UP_HEADER, ...(modules as string[])]);
  }

  /**
   * Runs a script synchronously and returns its value. Only for scripts that do not run tool code: the prelude and function expressions.
   */
  #evaluate(code: string, filename: string, cache?: CodeCache): ivm.Reference {
    const script = this.#isolate.compileScriptSync(code, scriptOptions(filename, cache));
    return script.runSync(this.#context, { reference: true }) as unknown as ivm.Reference;
  }

  /** Creates V8's code cache of the bundle, including the functions that have run so far. Must be called while the guest is idle. */
  makeCodeCache(bundle: LoadableBundle): Uint8Array {
    return this.#makeCache(bundle.code, TOOL_SCRIPT_NAME);
  }

  /** Compiles a script again that this isolate has run: V8 then caches all its functions, including those compiled lazily. */
  #makeCache(code: string, filename: string): Uint8Array {
    const script = this.#isolate.compileScriptSync(code, { filename, produceCachedData: true }) as unknown as {
      readonly cachedData?: ivm.ExternalCopy<ArrayBuffer>;
    };
    return script.cachedData === undefined ? new Uint8Array(0) : new Uint8Array(script.cachedData.copy());
  }

  /**
   * Opens a DevTools session. Must be called before tool code is in the isolate. V8 opens a session only under the isolate's lock, which
   * this thread holds during a callback from code in the isolate.
   */
  openInspector(onMessage: (text: string) => void): void {
    // isolated-vm's callbacks do not end a turn of the event loop, so process.nextTick callbacks would wait for the next turn.
    const forward = (text: string): void => void setImmediate(() => onMessage(text));
    const open = new ivm.Callback(
      () => {
        const session = this.#isolate.createInspectorSession();
        session.onResponse = (_id, text) => forward(text);
        session.onNotification = forward;
        this.#inspector = session;
      },
      { sync: true },
    );
    const script = this.#isolate.compileScriptSync("(open) => open()", { filename: PRELUDE_SCRIPT_NAME });
    const call = script.runSync(this.#context, { reference: true }) as unknown as ivm.Reference;
    call.applySync(undefined, [open]);
  }

  /** Closes the DevTools session. isolated-vm deadlocks if an isolate is disposed while it has a session. */
  #closeInspector(): void {
    const session = this.#inspector;
    this.#inspector = undefined;
    if (!this.#isolate.isDisposed) session?.dispose();
  }

  /** Sends a DevTools message to the isolate. Also works while the guest runs or is paused at a breakpoint. */
  inspect(message: string): void {
    if (!this.isDisposed) this.#inspector?.dispatchProtocolMessage(message);
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
    return this.#timers.size > 0;
  }

  /** Whether a thread may be executing guest code or a cryptography job of the guest. */
  get isRunning(): boolean {
    return this.#running > 0 || this.#crypto?.isBusy === true;
  }

  /**
   * Wall-clock time in ms that threads have spent in this isolate or on its synchronous requests and jobs. It equals the CPU time only if
   * there is a core for each thread. V8's own counter is paused while the guest waits for a response.
   */
  get busyMs(): number {
    return this.isDisposed ? 0 : Number(this.#isolate.cpuTime) / 1e6 + (this.#crypto?.busyMs ?? 0);
  }

  /**
   * Size in bytes of the V8 heap and array buffers in use. 0 while the guest runs, because a reading would wait for it. A reading takes 6
   * to 17 µs, a large part of a warm call, so it is reused until the guest has run for HEAP_READING_MS.
   */
  get heapBytes(): number {
    if (this.isDisposed || this.#running > 0) return 0;
    if (this.#unreadMs > HEAP_READING_MS) {
      try {
        const statistics = this.#isolate.getHeapStatisticsSync();
        this.#heapBytes = statistics.used_heap_size + statistics.externally_allocated_size;
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
      const evaluate = await this.#compile(bundle);
      this.#usedModules = bundle.modules;
      const modules = [...bundle.modules].flatMap((name) => [name, this.#compileModule(name).derefInto()]);
      this.#header = header ?? "";
      const end = await this.#exchange("load", evaluate.derefInto(), this.#header, ...modules);
      if (end.outcome === "ready") this.#loaded = bundle.sha256;
      return end;
    } catch {
      return this.#stopped("isolate-failed");
    }
  }

  /** Compiles a bundle. Its script only creates a function; the tool's code first runs in `enter`. */
  async #compile({ code, codeCache }: LoadableBundle): Promise<ivm.Reference> {
    // Waking up another thread twice would take longer than compiling a small bundle here. This thread must not run code of an inspected
    // isolate, though: a breakpoint would block it, and only this thread can receive the message that continues the isolate.
    if (code.length <= SMALL_BUNDLE_LENGTH && this.#options.inspector !== true) {
      return this.#evaluate(code, TOOL_SCRIPT_NAME, codeCache);
    }
    const script = await this.#isolate.compileScript(code, scriptOptions(TOOL_SCRIPT_NAME, codeCache));
    return (await script.run(this.#context, { reference: true })) as unknown as ivm.Reference;
  }

  /** Compiles a platform module to a function. Must be called before tool code runs, see `#answer`. */
  #compileModule(name: PlatformModuleName): ivm.Reference {
    const { modules } = this.#engine;
    return this.#evaluate(modules.source(name), PRELUDE_SCRIPT_NAME, modules.cache(name));
  }

  /** Evaluates all platform modules synchronously and creates their V8 code caches, in the order of PLATFORM_MODULE_NAMES. */
  createModuleCaches(): Uint8Array[] {
    this.boot();
    this.#loadWarmUpTool(...PLATFORM_MODULE_NAMES.flatMap((each) => [each, this.#compileModule(each).derefInto()]));
    return PLATFORM_MODULE_NAMES.map((name) => this.#makeCache(this.#engine.modules.source(name), PRELUDE_SCRIPT_NAME));
  }

  /** Returns the tool's definition as JSON text. */
  describe(): Promise<GuestEnd> {
    return this.#exchange("describe");
  }

  /** Runs one call. */
  call(call: GuestCall, listener: GuestListener): Promise<GuestEnd> {
    this.#listener = listener;
    const { header, input, callId, tenantId, bytes, stream, until } = call;
    if (until !== undefined && bytes === undefined && stream !== true && !this.isRunning) {
      const newHeader = header === this.#header ? undefined : header;
      const newTenantId = tenantId === this.#tenantId ? undefined : tenantId;
      this.#header = header;
      this.#tenantId = tenantId;
      return this.#exchangeNow(until, input, callId, newHeader, newTenantId);
    }
    const ended = this.#callLater(call);
    if (until !== undefined) this.#reportLeft();
    return ended;
  }

  /** Runs one call on another thread. */
  #callLater({ header, input, callId, tenantId, bytes, stream }: GuestCall): Promise<GuestEnd> {
    const newHeader = header === this.#header ? undefined : header;
    const newTenantId = tenantId === this.#tenantId ? undefined : tenantId;
    const isPlain = bytes === undefined && stream !== true;
    if (isPlain && newHeader === undefined && newTenantId === undefined) return this.#exchange("invoke", input, callId);
    this.#header = header;
    this.#tenantId = tenantId;
    if (isPlain) return this.#exchange("invoke", input, callId, newHeader, newTenantId);
    const parts = bytes === undefined ? [] : [bytes.header, copyIn(bytes.data)];
    return this.#exchange("invoke", input, callId, newHeader, newTenantId, stream === true, ...parts);
  }

  /** Lets a streaming tool produce this number of further chunks. */
  credit(chunks: number): void {
    void this.#run("credit", chunks);
  }

  /**
   * Delivers a capability's envelope to the guest. Those of one turn share an entry, which takes longer than reading an envelope.
   * @param until runs the guest on this thread, and ends it then
   */
  deliver(requestId: number, envelope: string, until?: GuestDeadline): void {
    this.#deliverUntil = until ?? this.#deliverUntil;
    if (this.#deliveries.push(requestId, envelope) === 2) queueMicrotask(() => this.#deliverAll());
  }

  #deliverAll(): void {
    const until = this.#deliverUntil;
    this.#deliverUntil = undefined;
    const deliveries = this.#deliveries.splice(0);
    if (until === undefined || this.isRunning) void this.#run("deliver", ...deliveries);
    else this.#runNow(until, "deliver", ...deliveries);
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
  rest(): void {
    this.#listener = IGNORE_MESSAGES;
    this.#clearTimers();
  }

  /**
   * Disposes the isolate. A running entry ends with `reason`. Resolves when the guest's code has really stopped. Some guest code never
   * stops; then only the end of the process stops it.
   */
  dispose(reason: IsolateStop = "cancelled"): Promise<void> {
    this.#stopReason ??= reason;
    if (!this.#disposed) {
      this.#disposed = true;
      this.#clearTimers();
      this.#listener = IGNORE_MESSAGES;
      this.#crypto?.dispose();
      this.#closeInspector();
      if (!this.#isolate.isDisposed) this.#isolate.dispose();
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

  #exchange(kind: EnterKind, ...args: unknown[]): Promise<GuestEnd> {
    return new Promise((resolve) => {
      this.#finish = (end) => {
        this.#finish = undefined;
        resolve(end);
      };
      if (this.isDisposed) this.#finish(this.#stopped("isolate-failed"));
      else void this.#run(kind, ...args);
    });
  }

  #exchangeNow(until: GuestDeadline, ...args: unknown[]): Promise<GuestEnd> {
    return new Promise((resolve) => {
      this.#finish = (end) => {
        this.#finish = undefined;
        resolve(end);
      };
      if (this.isDisposed) this.#finish(this.#stopped("isolate-failed"));
      else this.#runNow(until, "invoke-now", ...args);
      this.#reportLeft();
    });
  }

  #reportLeft(): void {
    if (this.#finish !== undefined) this.#listener.onLeft?.();
  }

  /**
   * Makes one entry into the guest on this thread. Returns when the guest's code and its microtasks have ended. V8 ends them at the
   * deadline, and the isolate is then disposed.
   */
  #runNow(until: GuestDeadline, kind: EnterKind, ...args: unknown[]): void {
    if (this.isDisposed || this.#enter === undefined) return;
    const started = performance.now();
    const timeout = Math.max(1, Math.ceil(until.at - started));
    this.#enteredAt = started;
    this.#running += 1;
    let rejection: { readonly reason: unknown } | undefined;
    try {
      this.#enter.applySync(undefined, [kind, ...(args as string[])], { timeout });
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
      void this.#run("unhandled", describeReason(rejection.reason));
    }
    this.#becomeIdle();
  }

  /** Makes one entry into the guest. Resolves when the thread has left the isolate. Never rejects. */
  async #run(kind: EnterKind, ...args: unknown[]): Promise<void> {
    if (this.isDisposed || this.#enter === undefined) return;
    if (this.#running === 0) this.#enteredAt = performance.now();
    this.#running += 1;
    const exchange = this.#finish;
    // A rejection means an unhandled promise rejection in the guest. The guest can cause one at will, so it does not end the exchange; only
    // the end of the isolate does. isolated-vm has copied the reason, which goes back to the guest to be logged.
    const onRejected = (reason: unknown): void => {
      const isOpen = exchange !== undefined && this.#finish === exchange;
      if (isOpen && kind !== "unhandled") void this.#run("unhandled", describeReason(reason));
      onLeft();
    };
    const onLeft = (): void => {
      this.#running -= 1;
      if (this.#isolate.isDisposed) this.#finish?.(this.#stopped("isolate-failed"));
      if (this.#running > 0) return;
      this.#unreadMs += performance.now() - this.#enteredAt;
      this.#becomeIdle();
    };
    await this.#enter.apply(undefined, [kind, ...(args as string[])]).then(onLeft, onRejected);
  }

  #receive(kind: GuestMessageKind, a: unknown, b: unknown, c: unknown, rest: readonly unknown[]): void {
    if (this.#disposed) return;
    if (kind === "done" && isGuestOutcome(a) && typeof b === "string") {
      this.#finish?.(rest.length === 0 ? { outcome: a, text: b } : toEnd(a, b, [c, ...rest]));
    } else if (kind === "yield" && typeof a === "string") this.#listener.onChunk?.(a, toBytes(b, c));
    else if (kind === "log" && typeof a === "string" && typeof b === "string")
      this.#listener.onLog(a, b, typeof c === "string" ? c : undefined);
    else if (kind === "progress" && typeof a === "string") this.#listener.onProgress(a);
    else if (kind === "timer" && typeof a === "number" && typeof b === "number") this.#setTimer(a, b);
    else if (kind === "capability" && typeof a === "number" && typeof b === "string" && typeof c === "string") {
      this.#listener.onCapability(a, b, c);
    }
  }

  /**
   * Responds to a synchronous request of the guest. It must not throw, because the error would expose the worker's stack to the guest. It
   * must not run code in the isolate, because V8 would then run the guest's microtasks in the middle of its current task (measured).
   */
  #answer(kind: GuestRequestKind, parts: readonly unknown[]): unknown {
    if (this.#disposed) return undefined;
    const [a, b, ...rest] = parts.filter((part) => part !== undefined);
    try {
      if (kind === "module" && isPlatformModuleName(a)) {
        this.#usedModules?.add(a);
        return this.#engine.modules.source(a);
      }
      if (kind === "asset" && typeof a === "string") {
        const asset = this.#engine.assets.get(a);
        return asset && toTransferable(new Uint8Array(asset).buffer);
      }
      if (kind === "random") return toTransferable(this.#guestCrypto.random(a));
      if (kind === "crypto" && typeof a === "string") {
        return toTransferable(this.#guestCrypto.ask(a, b === undefined ? rest : [b, ...rest]));
      }
      if (kind === "job" && typeof a === "number" && typeof b === "string") return this.#guestCrypto.begin(a, b, rest);
    } catch {
      // The module's script cannot be read, or memory is exhausted.
    }
    return undefined;
  }

  get #guestCrypto(): GuestCrypto {
    const { deterministic } = this.#options;
    this.#crypto ??= new GuestCrypto({
      jobQueue: this.#engine.jobQueue,
      memoryMiB: this.#options.memoryMiB,
      seeded: deterministic && new SeededBytes(deterministic.seed),
      answer: (id, text, buffers) => this.#run("answer", id, text, ...buffers.map(toTransferable)),
      onIdle: () => this.#becomeIdle(),
    });
    return this.#crypto;
  }

  #setTimer(id: number, delayMs: number): void {
    this.#timers.get(id)?.[Symbol.dispose]();
    this.#timers.delete(id);
    if (delayMs < 0) return;
    const fire = (): void => {
      this.#timers.delete(id);
      void this.#run("timer", id);
    };
    this.#timers.set(id, delayMs === 0 ? setImmediate(fire) : setTimeout(fire, delayMs));
  }

  #clearTimers(): void {
    for (const timer of this.#timers.values()) timer[Symbol.dispose]();
    this.#timers.clear();
  }
}

/** Moves bytes into the isolate without a copy. Returns text unchanged. */
function toTransferable(answer: CryptoAnswer): unknown {
  if (typeof answer === "string") return answer;
  return new ivm.ExternalCopy(answer, { transferOut: true }).copyInto({ release: true, transferIn: true });
}

/** Returns undefined if the header or the bytes are missing. */
function toBytes(header: unknown, data: unknown): GuestBytes | undefined {
  if (typeof header !== "string" || header === "" || !(data instanceof Uint8Array)) return undefined;
  return { header, data };
}

function toEnd(outcome: GuestOutcome, text: string, parts: readonly unknown[]): GuestEnd {
  const [header, data, contentText, contentHeader, contentData] = parts;
  const bytes = toBytes(header, data);
  if (typeof contentText !== "string") return { outcome, text, bytes };
  return { outcome, text, bytes, content: { text: contentText, bytes: toBytes(contentHeader, contentData) } };
}

/** Copies bytes into the guest's memory. */
const copyIn = (data: Uint8Array): unknown => new ivm.ExternalCopy(new Uint8Array(data)).copyInto({ release: true });

/** Creates the code cache of the prelude. Only in a process in which no tool has run: V8 does not validate code caches (CVE-2022-39266). */
export function createPreludeCache(preludeSource: string, readPlatformModule: ReadPlatformModule): Uint8Array {
  const engine = createEngine({ preludeSource, readPlatformModule, preludeCache: new Uint8Array(0) });
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
