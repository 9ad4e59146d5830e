// ToolIsolate: one V8 isolate with the prelude and one bundle in it. The one importer of isolated-vm; its handles never leave this file.
import { setImmediate as nextTurn } from "node:timers/promises";
import ivm from "isolated-vm";
import {
  type BootOptions,
  type EnterKind,
  GUEST_OUTCOMES,
  type GuestMessageKind,
  type GuestOutcome,
  type GuestQuestionKind,
  type InvokeHeader,
  PRELUDE_SCRIPT_NAME,
  TOOL_SCRIPT_NAME,
} from "../protocol/guest-messages.ts";
import type { StopReason } from "../protocol/messages.ts";
import { CHUNK_NAMES, type ChunkName, isChunkName, type ReadChunk } from "../protocol/platform-modules.ts";
import { type CryptoAnswer, GuestCrypto } from "./crypto/guest-crypto.ts";
import { NativeLanes } from "./crypto/native-lanes.ts";
import { type Deterministic, SeededBytes, seedWords } from "./seeded-bytes.ts";

/** V8's code cache of a script, outside every isolate. */
export interface CodeCache {
  readonly byteLength: number;
  readonly external: ivm.ExternalCopy<ArrayBuffer>;
}

/** What every isolate of a worker starts from. Made once. */
export interface Engine {
  readonly preludeSource: string;
  /** Undefined where there is none. */
  readonly preludeCache: CodeCache | undefined;
  readonly chunks: Chunks;
  readonly lanes: NativeLanes;
  /** Files of the Python interpreter's, by name: none but in a process that was given them. */
  readonly assets: Map<string, Uint8Array>;
}

/** The scripts of the guest's platform, read once each. */
export class Chunks {
  readonly #read: ReadChunk;
  readonly #sources = new Map<ChunkName, string>();
  readonly #caches = new Map<ChunkName, CodeCache>();

  /** @param caches in the order of CHUNK_NAMES, empty where there is none: of our own making, as the prelude's */
  constructor(read: ReadChunk, caches: readonly Uint8Array[] = []) {
    this.#read = read;
    for (const [index, bytes] of caches.entries()) {
      const name = CHUNK_NAMES[index];
      const cache = toCodeCache(bytes);
      if (name !== undefined && cache !== undefined) this.#caches.set(name, cache);
    }
  }

  /** @throws {Error} when it cannot be read */
  source(name: ChunkName): string {
    const source = this.#sources.get(name) ?? this.#read(name);
    this.#sources.set(name, source);
    return source;
  }

  cache(name: ChunkName): CodeCache | undefined {
    return this.#caches.get(name);
  }
}

export interface EngineSources {
  readonly preludeSource: string;
  /** As `makePreludeCache` has made it; empty where there is none. */
  readonly preludeCache: Uint8Array;
  readonly readChunk: ReadChunk;
  /** As `makeChunkCaches` has made them, in the order of CHUNK_NAMES; empty where there is none. */
  readonly chunkCaches?: readonly Uint8Array[];
}

export function createEngine({ preludeSource, preludeCache, readChunk, chunkCaches }: EngineSources): Engine {
  return {
    preludeSource,
    preludeCache: toCodeCache(preludeCache),
    chunks: new Chunks(readChunk, chunkCaches),
    lanes: new NativeLanes(),
    assets: new Map(),
  };
}

/** In memory of its own, which V8 reads from any thread. */
function toCodeCache(bytes: Uint8Array): CodeCache | undefined {
  if (bytes.byteLength === 0) return undefined;
  return { byteLength: bytes.byteLength, external: new ivm.ExternalCopy(new Uint8Array(bytes).buffer) };
}

/** A bundle as the worker holds it. */
export interface LoadableBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: CodeCache | undefined;
  /** What its isolates have touched so far: the next ones have it at hand. */
  readonly chunks: Set<ChunkName>;
}

export function createLoadableBundle(
  sha256: string,
  code: string,
  codeCache: Uint8Array,
  chunks: Set<ChunkName> = new Set(),
): LoadableBundle {
  return { sha256, code, codeCache: toCodeCache(codeCache), chunks };
}

/** What the guest tells while it runs; numbers and text, not yet believed. */
export interface GuestListener {
  onLog(level: string, text: string, place?: string): void;
  onProgress(text: string): void;
  onCapability(requestId: number, name: string, text: string): void;
  /** Of a call whose chunks are wanted. */
  onChunk?(text: string, bytes: GuestBytes | undefined): void;
}

/** The bytes beside a text: a BytesHeader as JSON text, and the bytes one after the other. */
export interface GuestBytes {
  readonly header: string;
  readonly data: Uint8Array;
}

/** How an entry into the guest ended. */
export interface GuestEnd {
  readonly outcome: GuestOutcome | StopReason;
  readonly text: string;
  readonly bytes?: GuestBytes | undefined;
  readonly content?: { readonly text: string; readonly bytes: GuestBytes | undefined } | undefined;
}

/** Why an isolate is stopped: for what the worker says of it, or since its chunks are too much. */
export type IsolateStop = StopReason | "too-large";

/** What a call is run with: `header` (an InvokeHeader) and `input` are JSON text. */
export interface GuestCall {
  readonly header: string;
  readonly input: string;
  readonly callId: string;
  readonly tenantId: string;
  /** Of the input, if it has any. */
  readonly bytes?: GuestBytes | undefined;
  /** Its chunks are wanted as they come. */
  readonly stream?: boolean | undefined;
}

export interface IsolateOptions extends Omit<BootOptions, "fixed"> {
  readonly memoryMiB: number;
  /** It can be inspected: only in a worker that its host has started for that. */
  readonly inspector?: boolean;
  /** Clock and random numbers are to begin here. */
  readonly deterministic?: Deterministic | undefined;
}

/** Compiled in less than a millisecond. */
const SMALL_BUNDLE_UNITS = 64 * 1024;
/** Of a call of ours, which asks for nothing: the text of an InvokeHeader. */
export function ownHeader(outputBytes: number): string {
  return JSON.stringify({
    granted: [],
    denied: [],
    outputBytes,
    logBytes: 0,
    logLines: 0,
    hostCalls: 0,
    pendingHostCalls: 0,
    timers: 0,
  } satisfies InvokeHeader);
}

/** What most tools do, and little that only some do: each function in the cache is read for every isolate. A chunk is what most take. */
const REHEARSAL = "(async (register) => register({ default: async (input) => DOMException && input }))";
const REHEARSAL_HEADER = ownHeader(1_024);

const scriptOptions = (filename: string, cache: CodeCache | undefined) => ({
  filename,
  ...(cache === undefined ? {} : { cachedData: cache.external }),
});

const MAX_REASON_LENGTH = 4_096;
/** Between the isolate's frames and ours, in the stack of an error that isolated-vm has copied. */
const STACK_BOUNDARY = "    at (<isolated-vm boundary>)";

/** Hears nothing. */
export const SILENT: GuestListener = { onLog() {}, onProgress() {}, onCapability() {} };
/** After its result a guest may finish what it is doing for this long; then its isolate is not reused but disposed. */
const SETTLE_MS = 2;
/** For so long of that it is asked again and again: less than falling asleep and waking up would take. */
const SPIN_MS = 0.2;
/** A reading of the heap holds until the guest has run for so long: to fill a MiB takes about a millisecond. */
const HEAP_READING_MS = 1;
const isGuestOutcome = (value: unknown): value is GuestOutcome => GUEST_OUTCOMES.includes(value as GuestOutcome);

/**
 * The guest's part of a copied reason: a primitive, or an error of this realm whose stack goes on in our own files.
 * @returns no stack where isolated-vm has not marked its end
 */
function describeReason(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason).slice(0, MAX_REASON_LENGTH);
  const end = reason.stack?.indexOf(STACK_BOUNDARY) ?? -1;
  const text = end < 0 ? `${reason.name}: ${reason.message}` : (reason.stack ?? "").slice(0, end).trimEnd();
  return text.slice(0, MAX_REASON_LENGTH);
}

/**
 * Owns one isolate. One entry at a time: `load`, then any number of `call`s. Dispose it to stop whatever runs.
 *
 * Every entry into the guest is an `apply` whose promise settles when the thread has left the isolate, microtasks included
 * (measured); `#running` counts them, so that "disposed" can be told from "really stopped".
 */
export class ToolIsolate {
  readonly #engine: Engine;
  readonly #options: IsolateOptions;
  readonly #isolate: ivm.Isolate;
  readonly #context: ivm.Context;
  readonly #timers = new Map<number, NodeJS.Timeout | NodeJS.Immediate>();
  #enter: ivm.Reference<(kind: EnterKind, ...args: unknown[]) => void> | undefined;
  #listener: GuestListener = SILENT;
  /** Of its bundle. */
  #touched: Set<ChunkName> | undefined;
  #finish: ((end: GuestEnd) => void) | undefined;
  /** What the guest was last told about its calls: each text that crosses costs. */
  #header = "";
  #loaded = "";
  #tenantId = "";
  #running = 0;
  #enteredAt = 0;
  /** Made when the guest first asks for it. */
  #crypto: GuestCrypto | undefined;
  #heapBytes = 0;
  /** Time in the guest since the last reading. */
  #unreadMs = Number.POSITIVE_INFINITY;
  #onIdle: (() => void)[] = [];
  /** Request ids and envelopes, in turns. */
  readonly #deliveries: (number | string)[] = [];
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

  /** Runs the prelude: only our own code, so waiting for it in line is safe. */
  boot(): void {
    const engine = this.#engine;
    const { features, coarseTime, deterministic } = this.#options;
    const fixed = deterministic && { now: deterministic.now, words: seedWords(deterministic.seed) };
    const options: BootOptions = { features, coarseTime, fixed };
    const boot = this.#evaluate(engine.preludeSource, PRELUDE_SCRIPT_NAME, engine.preludeCache);
    const post = new ivm.Callback(
      (kind: unknown, a: unknown, b: unknown, c: unknown, ...rest: unknown[]) =>
        this.#receive(kind as GuestMessageKind, a, b, c, rest),
      { ignored: true },
    );
    const ask = new ivm.Callback((kind: unknown, ...args: unknown[]) => this.#answer(kind as GuestQuestionKind, args), {
      sync: true,
    });
    this.#enter = boot.applySync(undefined, [post, ask, JSON.stringify(options)], {
      result: { reference: true },
    }) as ivm.Reference;
  }

  /**
   * V8's code cache of the prelude, after a tool of our own has run from its top level to its result, waited for in line: with every
   * function that most calls need.
   */
  makePreludeCache(): Uint8Array {
    this.boot();
    this.#rehearse();
    this.#enter?.applySync(undefined, ["invoke", "{}", "call", REHEARSAL_HEADER, "tenant"]);
    return this.#makeCache(this.#engine.preludeSource, PRELUDE_SCRIPT_NAME);
  }

  /** Loads a tool of our own as one is that is loaded ahead, waited for in line. */
  #rehearse(...chunks: unknown[]): void {
    const evaluate = this.#evaluate(REHEARSAL, TOOL_SCRIPT_NAME);
    this.#enter?.applySync(undefined, ["load", evaluate.derefInto(), REHEARSAL_HEADER, ...(chunks as string[])]);
  }

  /** The value of a script, waited for in line: the prelude's way in, or a function that nothing has called yet. */
  #evaluate(code: string, filename: string, cache?: CodeCache): ivm.Reference {
    const script = this.#isolate.compileScriptSync(code, scriptOptions(filename, cache));
    return script.runSync(this.#context, { reference: true }) as unknown as ivm.Reference;
  }

  /** V8's code cache of the bundle, after a warm-up run; only called while the guest is idle. */
  makeCodeCache(bundle: LoadableBundle): Uint8Array {
    return this.#makeCache(bundle.code, TOOL_SCRIPT_NAME);
  }

  /** Compiling text that this isolate has just run finds its functions, lazily compiled ones included, and caches them all. */
  #makeCache(code: string, filename: string): Uint8Array {
    const script = this.#isolate.compileScriptSync(code, { filename, produceCachedData: true }) as unknown as {
      readonly cachedData?: ivm.ExternalCopy<ArrayBuffer>;
    };
    return script.cachedData === undefined ? new Uint8Array(0) : new Uint8Array(script.cachedData.copy());
  }

  /**
   * From now on it can be spoken to in the DevTools protocol; before anything of a tool's is in it. V8 opens a session only under the
   * isolate's lock, which this thread has while code in the isolate has called it.
   */
  openInspector(onMessage: (text: string) => void): void {
    // isolated-vm's callbacks do not end in a turn of the event loop: what waits for one would wait for the next.
    const tell = (text: string): void => void setImmediate(() => onMessage(text));
    const open = new ivm.Callback(
      () => {
        const session = this.#isolate.createInspectorSession();
        session.onResponse = (_id, text) => tell(text);
        session.onNotification = tell;
        this.#inspector = session;
      },
      { sync: true },
    );
    const script = this.#isolate.compileScriptSync("(open) => open()", { filename: PRELUDE_SCRIPT_NAME });
    const call = script.runSync(this.#context, { reference: true }) as unknown as ivm.Reference;
    call.applySync(undefined, [open]);
  }

  /** Before the isolate goes: isolated-vm waits for itself for ever in an isolate that is disposed of with a session. */
  #closeInspector(): void {
    const session = this.#inspector;
    this.#inspector = undefined;
    if (!this.#isolate.isDisposed) session?.dispose();
  }

  /** A message of the DevTools protocol; heard also while the guest runs, or stands at a breakpoint. */
  inspect(message: string): void {
    if (!this.isDisposed) this.#inspector?.dispatchProtocolMessage(message);
  }

  get isDisposed(): boolean {
    return this.#disposed || this.#isolate.isDisposed;
  }

  /** V8 has ended the isolate for its memory limit, perhaps after the guest had given its result. */
  get isOutOfMemory(): boolean {
    if (this.#stopReason !== undefined) return this.#stopReason === "memory";
    return this.#isolate.isDisposed;
  }

  /** Whether the bundle was the last to be loaded into it. */
  hasLoaded({ sha256 }: LoadableBundle): boolean {
    return this.#loaded === sha256;
  }

  get hasTimers(): boolean {
    return this.#timers.size > 0;
  }

  /** True while the isolate's thread is, or may be, in the guest, or another is at work for it. */
  get isRunning(): boolean {
    return this.#running > 0 || this.#crypto?.isBusy === true;
  }

  /**
   * Time that threads have spent in this isolate, or outside of it for what it has asked for, in ms of the wall's clock: CPU time only
   * where there is a core for each. V8's own count stands still while the guest waits for an answer.
   */
  get busyMs(): number {
    return this.isDisposed ? 0 : Number(this.#isolate.cpuTime) / 1e6 + (this.#crypto?.busyMs ?? 0);
  }

  /**
   * V8 heap and array buffers in use, in bytes; 0 while the guest runs, since asking would wait for it. Asking costs 6-17 µs, a
   * good part of a warm call, so an answer holds until the guest has run for HEAP_READING_MS.
   */
  get heapBytes(): number {
    if (this.isDisposed || this.#running > 0) return 0;
    if (this.#unreadMs > HEAP_READING_MS) {
      try {
        const statistics = this.#isolate.getHeapStatisticsSync();
        this.#heapBytes = statistics.used_heap_size + statistics.externally_allocated_size;
        this.#unreadMs = 0;
      } catch {
        // The isolate passed its memory limit after the guest had left it. V8 finds that out, and ends the isolate, on the next entry.
        void this.dispose("memory");
        return 0;
      }
    }
    return this.#heapBytes;
  }

  /**
   * Compiles the bundle and evaluates the tool's top level.
   * @param header of the calls to come: then the prelude does all that it does in a call but call the tool, and the first one finds it done
   */
  async load(bundle: LoadableBundle, listener: GuestListener, header?: string): Promise<GuestEnd> {
    this.#listener = listener;
    this.#loaded = "";
    try {
      const evaluate = await this.#compile(bundle);
      this.#touched = bundle.chunks;
      const chunks = [...bundle.chunks].flatMap((name) => [name, this.#compileChunk(name).derefInto()]);
      this.#header = header ?? "";
      const end = await this.#exchange("load", evaluate.derefInto(), this.#header, ...chunks);
      if (end.outcome === "ready") this.#loaded = bundle.sha256;
      return end;
    } catch {
      return this.#stopped("isolate-failed");
    }
  }

  /** A bundle's script only makes a function: the tool's first line runs in `enter`. */
  async #compile({ code, codeCache }: LoadableBundle): Promise<ivm.Reference> {
    // What is quickly compiled is not worth a thread's waking up, twice.
    // One that stands at a breakpoint would hold this thread, which is to tell it when to go on.
    if (code.length <= SMALL_BUNDLE_UNITS && this.#options.inspector !== true) {
      return this.#evaluate(code, TOOL_SCRIPT_NAME, codeCache);
    }
    const script = await this.#isolate.compileScript(code, scriptOptions(TOOL_SCRIPT_NAME, codeCache));
    return (await script.run(this.#context, { reference: true })) as unknown as ivm.Reference;
  }

  /** Makes a function only; before anything of the tool's runs, see `#answer`. */
  #compileChunk(name: ChunkName): ivm.Reference {
    const { chunks } = this.#engine;
    return this.#evaluate(chunks.source(name), PRELUDE_SCRIPT_NAME, chunks.cache(name));
  }

  /** V8's code caches of all chunks, in the order of CHUNK_NAMES, after they have been evaluated here, waited for in line. */
  makeChunkCaches(): Uint8Array[] {
    this.boot();
    this.#rehearse(...CHUNK_NAMES.flatMap((each) => [each, this.#compileChunk(each).derefInto()]));
    return CHUNK_NAMES.map((name) => this.#makeCache(this.#engine.chunks.source(name), PRELUDE_SCRIPT_NAME));
  }

  /** The tool's definition as JSON text. */
  describe(): Promise<GuestEnd> {
    return this.#exchange("describe");
  }

  /** Runs one call. */
  call({ header, input, callId, tenantId, bytes, stream }: GuestCall, listener: GuestListener): Promise<GuestEnd> {
    this.#listener = listener;
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

  /** So many more of its chunks have been taken. */
  credit(chunks: number): void {
    void this.#run("credit", chunks);
  }

  /** Hands a capability's envelope to the guest, with those that come in the same turn: to enter it takes longer than to read one. */
  deliver(requestId: number, envelope: string): void {
    if (this.#deliveries.push(requestId, envelope) > 2) return;
    queueMicrotask(() => void this.#run("deliver", ...this.#deliveries.splice(0)));
  }

  /** Gives the guest a moment to finish after its result; false if it still runs, and then it should be disposed. */
  async settle(withinMs: number = SETTLE_MS): Promise<boolean> {
    // Mostly it leaves within microseconds of its result: to sleep until it does would take longer.
    for (const until = performance.now() + SPIN_MS; this.isRunning && performance.now() < until; ) await nextTurn();
    if (!this.isRunning) return true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
    });
    await Promise.race([this.#idle(), late]);
    clearTimeout(timer);
    return !this.isRunning;
  }

  /** Between two calls: nothing of the last one stays with the worker. */
  rest(): void {
    this.#listener = SILENT;
    this.#clearTimers();
  }

  /**
   * Ends the isolate; an entry under way ends with `reason`. Resolves when its thread has really left: some guest code
   * never does, and then only the end of the process stops it.
   */
  dispose(reason: IsolateStop = "cancelled"): Promise<void> {
    this.#stopReason ??= reason;
    if (!this.#disposed) {
      this.#disposed = true;
      this.#clearTimers();
      this.#listener = SILENT;
      this.#crypto?.dispose();
      this.#closeInspector();
      if (!this.#isolate.isDisposed) this.#isolate.dispose();
      this.#finish?.(this.#stopped(reason));
    }
    return this.#idle();
  }

  #stopped(fallback: IsolateStop): GuestEnd {
    // An isolate that is gone though nobody disposed it was ended by V8 for its memory limit.
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

  /** Resolves when the guest has taken it and left; never rejects. */
  async #run(kind: EnterKind, ...args: unknown[]): Promise<void> {
    if (this.isDisposed || this.#enter === undefined) return;
    if (this.#running === 0) this.#enteredAt = performance.now();
    this.#running += 1;
    const exchange = this.#finish;
    // A rejection says nothing to be believed of the exchange: it is a promise of the guest's that nobody handles. Only the isolate's end
    // counts. isolated-vm has copied its reason; the guest itself logs it, as it logs whatever else its author should know.
    const rejected = (reason: unknown): void => {
      const isOpen = exchange !== undefined && this.#finish === exchange;
      if (isOpen && kind !== "unhandled") void this.#run("unhandled", describeReason(reason));
      left();
    };
    const left = (): void => {
      this.#running -= 1;
      if (this.#isolate.isDisposed) this.#finish?.(this.#stopped("isolate-failed"));
      if (this.#running > 0) return;
      this.#unreadMs += performance.now() - this.#enteredAt;
      this.#becomeIdle();
    };
    await this.#enter.apply(undefined, [kind, ...(args as string[])]).then(left, rejected);
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
   * The guest waits in its thread meanwhile. What is thrown here would show it our stack; and were anything run in the isolate, V8 would
   * run the guest's microtasks after it, in the middle of what is to run to its end [m].
   */
  #answer(kind: GuestQuestionKind, parts: readonly unknown[]): unknown {
    if (this.#disposed) return undefined;
    const [a, b, ...rest] = parts.filter((part) => part !== undefined);
    try {
      if (kind === "chunk" && isChunkName(a)) {
        this.#touched?.add(a);
        return this.#engine.chunks.source(a);
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
      // Our own files cannot be read, or there is no memory.
    }
    return undefined;
  }

  get #guestCrypto(): GuestCrypto {
    const { deterministic } = this.#options;
    this.#crypto ??= new GuestCrypto({
      lanes: this.#engine.lanes,
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
    const ring = (): void => {
      this.#timers.delete(id);
      void this.#run("timer", id);
    };
    this.#timers.set(id, delayMs === 0 ? setImmediate(ring) : setTimeout(ring, delayMs));
  }

  #clearTimers(): void {
    for (const timer of this.#timers.values()) timer[Symbol.dispose]();
    this.#timers.clear();
  }
}

/** Bytes move into the isolate: nothing of them stays here. */
function toTransferable(answer: CryptoAnswer): unknown {
  if (typeof answer === "string") return answer;
  return new ivm.ExternalCopy(answer, { transferOut: true }).copyInto({ release: true, transferIn: true });
}

/** A header without bytes is as good as none. */
function toBytes(header: unknown, data: unknown): GuestBytes | undefined {
  if (typeof header !== "string" || header === "" || !(data instanceof Uint8Array)) return undefined;
  return { header, data };
}

function toEnd(outcome: GuestOutcome, text: string, words: readonly unknown[]): GuestEnd {
  const [header, data, contentText, contentHeader, contentData] = words;
  const bytes = toBytes(header, data);
  if (typeof contentText !== "string") return { outcome, text, bytes };
  return { outcome, text, bytes, content: { text: contentText, bytes: toBytes(contentHeader, contentData) } };
}

/** Into the guest's own memory. */
const copyIn = (data: Uint8Array): unknown => new ivm.ExternalCopy(new Uint8Array(data)).copyInto({ release: true });

/** Only in a process in which no tool has run: V8 believes a code cache (CVE-2022-39266). */
export function makePreludeCache(preludeSource: string, readChunk: ReadChunk): Uint8Array {
  const engine = createEngine({ preludeSource, readChunk, preludeCache: new Uint8Array(0) });
  return withIsolate(engine, (isolate) => isolate.makePreludeCache());
}

/** The same holds for these. */
export function makeChunkCaches(engine: Engine): Uint8Array[] {
  return withIsolate(engine, (isolate) => isolate.makeChunkCaches());
}

function withIsolate<Made>(engine: Engine, make: (isolate: ToolIsolate) => Made): Made {
  const isolate = new ToolIsolate(engine, { memoryMiB: 128, features: [], coarseTime: false });
  try {
    return make(isolate);
  } finally {
    void isolate.dispose();
  }
}
