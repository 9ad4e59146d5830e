// Loaded spares: isolates in which a tool's bundle has been evaluated and a no-op call been made, and which no call has touched. Made
// ahead, in idle time, for tools that are called again and again; each serves one call.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ToolProfile } from "../protocol/messages.ts";
import type { GuestListener, LoadableBundle, ToolIsolate } from "./tool-isolate.ts";

/** Of all tools of one worker; the host's limit on its isolates counts them in. */
export const MAX_SPARES = 8;
/** Heap of all together, and of one: what a worker may have at rest has room for it. */
const MAX_BYTES = 24 * 1024 * 1024;
const MAX_BYTES_OF_ONE = 12 * 1024 * 1024;
/** A tool that was not called for so long costs no memory. */
const COLD_MS = 3_000;
const REAP_MS = 1_000;
/** Of the newest in what is known of a tool. */
const SMOOTHING = 0.3;
/** As many as are asked for while one is made, and half as many again: calls do not come evenly. */
const MARGIN = 1.5;
const MIN_INTERVAL_MS = 0.1;
/** A top level that takes longer is run when somebody has asked for it. */
const LOAD_MS = 250;
/** One that could not be run ahead is tried again after so long, and each time after twice as long: the machine may have been busy. */
const RETRY_MS = 10_000;
/** One that has not stopped so long after it was disposed never will. */
const STOP_MS = 200;

/** What spares need of their worker. */
export interface WarmIsolateKeeper {
  create(tool: ToolProfile): ToolIsolate;
  bundle(tool: ToolProfile): LoadableBundle | undefined;
  /** Whether no call would be kept waiting by some milliseconds of work. */
  isCalm(): boolean;
  /** A top level runs that cannot be stopped. */
  onStuck(): void;
}

interface Spare {
  readonly isolate: ToolIsolate;
  readonly bytes: number;
}

/** What is known of one tool's calls, and what is ready for the next ones. */
class Line {
  readonly tool: ToolProfile;
  readonly ready: Spare[] = [];
  #lastCallAt: number;
  #intervalMs = Number.POSITIVE_INFINITY;
  #makeMs = 0;
  /** Times that its top level has said or done something, taken long, failed, or kept much. */
  #failures = 0;
  #notBefore = 0;

  /** @param like a line whose calls come as those of this one will */
  constructor(tool: ToolProfile, now: number, like?: Line) {
    this.tool = tool;
    this.#lastCallAt = now;
    if (like === undefined) return;
    this.#intervalMs = like.#intervalMs;
    this.#makeMs = like.#makeMs;
  }

  called(now: number): void {
    this.#intervalMs = smooth(this.#intervalMs, now - this.#lastCallAt);
    this.#lastCallAt = now;
  }

  made(spare: Spare, ms: number): void {
    this.#makeMs = smooth(this.#makeMs || ms, ms);
    this.ready.push(spare);
  }

  failed(now: number): void {
    this.#notBefore = now + RETRY_MS * 2 ** this.#failures;
    this.#failures += 1;
  }

  isCold(now: number): boolean {
    return now - this.#lastCallAt > COLD_MS;
  }

  /** How many more there should be. */
  missing(now: number): number {
    // Of a tool that is called once, which is what code that an agent has just written is, nothing is made ahead.
    const isCalledAgain = Number.isFinite(this.#intervalMs);
    if (!isCalledAgain || now < this.#notBefore || this.isCold(now)) return 0;
    const whileOneIsMade = (MARGIN * this.#makeMs) / Math.max(this.#intervalMs, MIN_INTERVAL_MS);
    return 1 + Math.round(whileOneIsMade) - this.ready.length;
  }
}

const smooth = (mean: number, value: number): number =>
  Number.isFinite(mean) ? mean + (value - mean) * SMOOTHING : value;

export class WarmIsolates {
  readonly #keeper: WarmIsolateKeeper;
  /** By the tool's number. */
  readonly #lines = new Map<number, Line>();
  #count = 0;
  #bytes = 0;
  #isMaking = false;
  #reaper: NodeJS.Timeout | undefined;

  constructor(keeper: WarmIsolateKeeper) {
    this.#keeper = keeper;
  }

  /** At each call whose isolate is its own: one for it, if there is one. */
  take(tool: ToolProfile): ToolIsolate | undefined {
    if (!tool.prewarm) return undefined;
    const now = performance.now();
    let line = this.#lines.get(tool.toolId);
    if (line === undefined) line = this.#addLine(new Line(tool, now));
    else line.called(now);
    for (let spare = line.ready.pop(); spare !== undefined; spare = line.ready.pop()) {
      this.#forget(spare);
      if (!spare.isolate.isDisposed) return spare.isolate;
    }
    return undefined;
  }

  /** Takes an isolate that was made for a version of a tool that is to take the place of another one: `like` is that one's number. */
  adopt(tool: ToolProfile, isolate: ToolIsolate, like: number | undefined): void {
    const before = like === undefined ? undefined : this.#lines.get(like);
    // What is full with isolates of the old version has room for the new one.
    const old = this.#isFull ? before?.ready.pop() : undefined;
    if (old !== undefined) {
      this.#forget(old);
      this.#dispose(old.isolate);
    }
    const bytes = isolate.heapBytes;
    if (this.#isFull || bytes > MAX_BYTES_OF_ONE) {
      this.#dispose(isolate);
      return;
    }
    const line = this.#lines.get(tool.toolId) ?? this.#addLine(new Line(tool, performance.now(), before));
    this.#count += 1;
    this.#bytes += bytes;
    line.ready.push({ isolate, bytes });
  }

  /** Disposes those of a tool. */
  forget(toolId: number): void {
    for (const spare of this.#lines.get(toolId)?.ready.splice(0) ?? []) {
      this.#forget(spare);
      this.#dispose(spare.isolate);
    }
    this.#lines.delete(toolId);
  }

  get #isFull(): boolean {
    return this.#count >= MAX_SPARES || this.#bytes >= MAX_BYTES;
  }

  #addLine(line: Line): Line {
    this.#lines.set(line.tool.toolId, line);
    this.#reaper ??= setInterval(() => this.#reap(), REAP_MS).unref();
    return line;
  }

  #forget({ bytes }: Spare): void {
    this.#count -= 1;
    this.#bytes -= bytes;
  }

  /** Makes what is missing, one at a time, for as long as nothing else is to be done. */
  async refill(): Promise<void> {
    if (this.#isMaking || this.#lines.size === 0) return;
    this.#isMaking = true;
    try {
      for (;;) {
        // What has come meanwhile is read first.
        await nextTurn();
        const line = this.#keeper.isCalm() ? this.#neediest() : undefined;
        if (line === undefined) return;
        await this.#make(line);
      }
    } finally {
      this.#isMaking = false;
    }
  }

  /** Of those that miss some, the one that has fewest: a tool in great demand does not take all. */
  #neediest(): Line | undefined {
    if (this.#isFull) return undefined;
    const now = performance.now();
    let neediest: Line | undefined;
    for (const line of this.#lines.values()) {
      if (line.missing(now) > 0 && line.ready.length < (neediest?.ready.length ?? MAX_SPARES)) neediest = line;
    }
    return neediest;
  }

  async #make(line: Line): Promise<void> {
    const began = performance.now();
    let isolate: ToolIsolate | undefined;
    try {
      isolate = this.#keeper.create(line.tool);
      // Its tool may have gone cold meanwhile.
      if ((await this.#prepare(isolate, line.tool)) && this.#lines.get(line.tool.toolId) === line) {
        const spare = { isolate, bytes: isolate.heapBytes };
        this.#count += 1;
        this.#bytes += spare.bytes;
        line.made(spare, performance.now() - began);
        return;
      }
    } catch {
      // There was no memory for it.
    }
    line.failed(performance.now());
    if (isolate !== undefined) this.#dispose(isolate);
  }

  /** In steps, between which calls are taken. False when the tool's top level should not have been run ahead. */
  async #prepare(isolate: ToolIsolate, tool: ToolProfile): Promise<boolean> {
    const bundle = this.#keeper.bundle(tool);
    if (bundle === undefined) return false;
    await nextTurn();
    isolate.boot();
    await nextTurn();
    const isQuiet = await loadQuietly(isolate, bundle, tool.header);
    return isQuiet && !isolate.isDisposed && isolate.heapBytes <= MAX_BYTES_OF_ONE;
  }

  #dispose(isolate: ToolIsolate): void {
    const stuck = setTimeout(() => this.#keeper.onStuck(), STOP_MS);
    void isolate.dispose().then(() => clearTimeout(stuck));
  }

  #reap(): void {
    const now = performance.now();
    for (const [key, line] of this.#lines) {
      if (!line.isCold(now)) continue;
      for (const spare of line.ready.splice(0)) {
        this.#forget(spare);
        this.#dispose(spare.isolate);
      }
      this.#lines.delete(key);
    }
    if (this.#lines.size > 0) return;
    clearInterval(this.#reaper);
    this.#reaper = undefined;
  }
}

/** Hears whether a top level has said anything: there is no call that it could be said to. */
class Witness implements GuestListener {
  hasHeard = false;
  onLog(): void {
    this.hasHeard = true;
  }
  onProgress(): void {
    this.hasHeard = true;
  }
  onCapability(): void {
    this.hasHeard = true;
  }
}

async function loadQuietly(isolate: ToolIsolate, bundle: LoadableBundle, header: string): Promise<boolean> {
  const witness = new Witness();
  const late = setTimeout(() => void isolate.dispose(), LOAD_MS);
  try {
    const { outcome } = await isolate.load(bundle, witness, header);
    if (outcome !== "ready" || !(await isolate.settle(LOAD_MS))) return false;
    return !witness.hasHeard && !isolate.hasTimers;
  } finally {
    clearTimeout(late);
  }
}
