// The warm pool of a worker: isolates in which a tool's bundle is evaluated and a warm-up call has run, and which no call has used. They
// are created in idle time for tools that are called repeatedly. Each serves one call.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ToolProfile } from "../protocol/host-messages.ts";
import type { LoadableBundle } from "./isolate/engine.ts";
import type { GuestListener } from "./isolate/guest-call.ts";
import type { ToolIsolate } from "./isolate/tool-isolate.ts";

/** Maximum number of warm isolates in one worker, for all tools. The host's limit on isolates includes them. */
export const MAX_WARM_ISOLATES = 8;
/** Maximum heap size of all warm isolates, and of one. The memory limit of an idle worker allows for it. */
const MAX_BYTES = 24 * 1024 * 1024;
const MAX_BYTES_OF_ONE = 12 * 1024 * 1024;
/** Warm isolates of a tool are disposed after this time in ms without a call. */
const COLD_MS = 3_000;
const REAP_MS = 1_000;
/** Weight of the newest value in the moving averages. */
const SMOOTHING = 0.3;
/** Factor on the number of calls that are expected while one isolate is created, because calls do not arrive evenly. */
const MARGIN = 1.5;
const MIN_INTERVAL_MS = 0.1;
/** Default time limit in ms for prewarming a top level. A slower one runs only when its tool is called. */
const LOAD_MS = 250;
/** Delay in ms before prewarming is tried again after a failure, doubled each time. The machine may have been busy. */
const RETRY_MS = 10_000;
/** An isolate that still runs this time in ms after its disposal is considered stuck. */
const STOP_MS = 200;

/** Functions of the worker that the warm pool uses. */
export interface WarmIsolateKeeper {
  create(tool: ToolProfile): ToolIsolate;
  bundle(tool: ToolProfile): LoadableBundle | undefined;
  /** Whether some milliseconds of work would not delay any call. */
  isCalm(): boolean;
  /** Called when a top level cannot be stopped. */
  onStuck(): void;
}

interface WarmIsolate {
  readonly isolate: ToolIsolate;
  readonly bytes: number;
}

/** Call statistics of one tool, and its warm isolates. */
class ToolStock {
  readonly tool: ToolProfile;
  readonly ready: WarmIsolate[] = [];
  #lastCallAt: number;
  #intervalMs = Number.POSITIVE_INFINITY;
  #createMs = 0;
  /** How often prewarming failed: the top level had side effects, took too long, threw, or used too much memory. */
  #failures = 0;
  #notBefore = 0;

  /** @param like a tool whose call rate predicts that of this one */
  constructor(tool: ToolProfile, now: number, like?: ToolStock) {
    this.tool = tool;
    this.#lastCallAt = now;
    if (like === undefined) return;
    this.#intervalMs = like.#intervalMs;
    this.#createMs = like.#createMs;
  }

  recordCall(now: number): void {
    this.#intervalMs = smooth(this.#intervalMs, now - this.#lastCallAt);
    this.#lastCallAt = now;
  }

  add(warm: WarmIsolate, ms: number): void {
    this.#createMs = smooth(this.#createMs || ms, ms);
    this.ready.push(warm);
  }

  recordFailure(now: number): void {
    this.#notBefore = now + RETRY_MS * 2 ** this.#failures;
    this.#failures += 1;
  }

  isCold(now: number): boolean {
    return now - this.#lastCallAt > COLD_MS;
  }

  /** Returns how many more isolates to create. */
  countMissing(now: number): number {
    // A tool that is called only once, such as code that an agent has just written, gets no warm isolates.
    const isCalledAgain = Number.isFinite(this.#intervalMs);
    if (!isCalledAgain || now < this.#notBefore || this.isCold(now)) return 0;
    const expectedCalls = (MARGIN * this.#createMs) / Math.max(this.#intervalMs, MIN_INTERVAL_MS);
    return 1 + Math.round(expectedCalls) - this.ready.length;
  }
}

const smooth = (mean: number, value: number): number =>
  Number.isFinite(mean) ? mean + (value - mean) * SMOOTHING : value;

export class WarmIsolates {
  readonly #keeper: WarmIsolateKeeper;
  readonly #loadMs: number;
  /** By tool id. */
  readonly #stocks = new Map<number, ToolStock>();
  #count = 0;
  #bytes = 0;
  #isRefilling = false;
  #reaper: NodeJS.Timeout | undefined;

  /** @param loadMs longest time in ms for prewarming a top level */
  constructor(keeper: WarmIsolateKeeper, loadMs: number = LOAD_MS) {
    this.#keeper = keeper;
    this.#loadMs = loadMs;
  }

  /** Records a call that needs its own isolate, and returns a warm isolate if there is one. */
  take(tool: ToolProfile): ToolIsolate | undefined {
    if (!tool.prewarm) return undefined;
    const now = performance.now();
    let stock = this.#stocks.get(tool.toolId);
    if (stock === undefined) stock = this.#addStock(new ToolStock(tool, now));
    else stock.recordCall(now);
    for (let warm = stock.ready.pop(); warm !== undefined; warm = stock.ready.pop()) {
      this.#uncount(warm);
      if (!warm.isolate.isDisposed) return warm.isolate;
    }
    return undefined;
  }

  /**
   * Adds an isolate that was created for the new version of a tool.
   * @param like id of the tool's old version
   */
  adopt(tool: ToolProfile, isolate: ToolIsolate, like: number | undefined): void {
    const oldStock = like === undefined ? undefined : this.#stocks.get(like);
    // In a full pool an isolate of the old version makes room for the new one.
    const old = this.#isFull ? oldStock?.ready.pop() : undefined;
    if (old !== undefined) {
      this.#uncount(old);
      this.#dispose(old.isolate);
    }
    const bytes = isolate.heapBytes;
    if (this.#isFull || bytes > MAX_BYTES_OF_ONE) {
      this.#dispose(isolate);
      return;
    }
    const stock = this.#stocks.get(tool.toolId) ?? this.#addStock(new ToolStock(tool, performance.now(), oldStock));
    this.#count += 1;
    this.#bytes += bytes;
    stock.ready.push({ isolate, bytes });
  }

  /** Disposes the warm isolates of a tool. */
  forget(toolId: number): void {
    for (const warm of this.#stocks.get(toolId)?.ready.splice(0) ?? []) {
      this.#uncount(warm);
      this.#dispose(warm.isolate);
    }
    this.#stocks.delete(toolId);
  }

  get #isFull(): boolean {
    return this.#count >= MAX_WARM_ISOLATES || this.#bytes >= MAX_BYTES;
  }

  #addStock(stock: ToolStock): ToolStock {
    this.#stocks.set(stock.tool.toolId, stock);
    this.#reaper ??= setInterval(() => this.#reap(), REAP_MS).unref();
    return stock;
  }

  #uncount({ bytes }: WarmIsolate): void {
    this.#count -= 1;
    this.#bytes -= bytes;
  }

  /** Creates missing warm isolates one at a time, while the worker has nothing else to do. */
  async refill(): Promise<void> {
    if (this.#isRefilling || this.#stocks.size === 0) return;
    this.#isRefilling = true;
    try {
      for (;;) {
        // Read the messages that have arrived since the last step.
        await nextTurn();
        const stock = this.#keeper.isCalm() ? this.#findNeediest() : undefined;
        if (stock === undefined) return;
        await this.#createFor(stock);
      }
    } finally {
      this.#isRefilling = false;
    }
  }

  /** Returns the tool with the fewest warm isolates among those that need more, so that a busy tool does not take all capacity. */
  #findNeediest(): ToolStock | undefined {
    if (this.#isFull) return undefined;
    const now = performance.now();
    let neediest: ToolStock | undefined;
    for (const stock of this.#stocks.values()) {
      if (stock.countMissing(now) > 0 && stock.ready.length < (neediest?.ready.length ?? MAX_WARM_ISOLATES))
        neediest = stock;
    }
    return neediest;
  }

  async #createFor(stock: ToolStock): Promise<void> {
    const started = performance.now();
    let isolate: ToolIsolate | undefined;
    try {
      isolate = this.#keeper.create(stock.tool);
      // The tool may have been removed or have become cold in the meantime.
      if ((await this.#prepare(isolate, stock.tool)) && this.#stocks.get(stock.tool.toolId) === stock) {
        const warm = { isolate, bytes: isolate.heapBytes };
        this.#count += 1;
        this.#bytes += warm.bytes;
        stock.add(warm, performance.now() - started);
        return;
      }
    } catch {
      // Memory is exhausted.
    }
    stock.recordFailure(performance.now());
    if (isolate !== undefined) this.#dispose(isolate);
  }

  /** Boots and loads an isolate in steps, between which the worker reads messages. Returns false if the tool cannot be prewarmed. */
  async #prepare(isolate: ToolIsolate, tool: ToolProfile): Promise<boolean> {
    const bundle = this.#keeper.bundle(tool);
    if (bundle === undefined) return false;
    await nextTurn();
    isolate.boot();
    await nextTurn();
    const isLoaded = await loadWithoutSideEffects(isolate, bundle, tool.header, this.#loadMs);
    return isLoaded && !isolate.isDisposed && isolate.heapBytes <= MAX_BYTES_OF_ONE;
  }

  #dispose(isolate: ToolIsolate): void {
    const stuckTimer = setTimeout(() => this.#keeper.onStuck(), STOP_MS);
    void isolate.dispose().then(() => clearTimeout(stuckTimer));
  }

  #reap(): void {
    const now = performance.now();
    for (const [key, stock] of this.#stocks) {
      if (!stock.isCold(now)) continue;
      for (const warm of stock.ready.splice(0)) {
        this.#uncount(warm);
        this.#dispose(warm.isolate);
      }
      this.#stocks.delete(key);
    }
    if (this.#stocks.size > 0) return;
    clearInterval(this.#reaper);
    this.#reaper = undefined;
  }
}

/** Records whether a top level had side effects. They belong to no call, so such an isolate cannot be used. */
class SideEffectRecorder implements GuestListener {
  hasSideEffects = false;
  onLog(): void {
    this.hasSideEffects = true;
  }
  onProgress(): void {
    this.hasSideEffects = true;
  }
  onCapability(): void {
    this.hasSideEffects = true;
  }
}

/** Loads a bundle. Returns false if the top level fails, takes too long, or has side effects. */
async function loadWithoutSideEffects(
  isolate: ToolIsolate,
  bundle: LoadableBundle,
  header: string,
  withinMs: number,
): Promise<boolean> {
  const recorder = new SideEffectRecorder();
  const timeout = setTimeout(() => void isolate.dispose(), withinMs);
  try {
    const { outcome } = await isolate.load(bundle, recorder, header);
    if (outcome !== "ready" || !(await isolate.settle(withinMs))) return false;
    return !recorder.hasSideEffects && !isolate.hasTimers;
  } finally {
    clearTimeout(timeout);
  }
}
