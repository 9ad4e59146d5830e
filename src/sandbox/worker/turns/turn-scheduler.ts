// Decides in which order the completions of a repeatable call enter its isolate: timers, answers of the host, results of jobs, credit. Each
// completion is a turn of its own; the next turn starts when the guest's code and its microtasks have ended.
import { STREAM_WINDOW } from "../../protocol/guest-messages.ts";
import type { Turn, TurnDivergence, TurnKind, TurnMode } from "../../protocol/turns.ts";
import { TurnLog, type TurnReport } from "./turn-log.ts";

/** Initial state of a repeatable call, and how its turns are chosen. */
export interface TurnOptions {
  /** @default "virtual" */
  readonly mode?: TurnMode | undefined;
  /** Initial time of the guest's clock, in ms since 1970. */
  readonly now: number;
  /** Recorded turns, for `replay` and `resume`. */
  readonly turns?: readonly Turn[] | undefined;
  /** Rolls the call back after its recorded turns, for `resume`. Limit in ms of each function that it registered. */
  readonly rollbackMs?: number | undefined;
}

/** A turn, and the arguments of its entry into the guest. */
export interface PlannedTurn<Deadline> {
  readonly kind: TurnKind;
  readonly at: number;
  readonly args: readonly unknown[];
  readonly until: Deadline | undefined;
  /** Called when the guest has received the turn. */
  readonly onLeft: (() => void) | undefined;
}

/** Something that the guest waits for. It is ready once it has `args`. */
interface Wait<Deadline> {
  readonly kind: TurnKind;
  readonly id: number;
  /** Order of the starts. */
  readonly order: number;
  /** Earliest time by the virtual clock. */
  dueAt: number;
  args: readonly unknown[] | undefined;
  until: Deadline | undefined;
  onLeft: (() => void) | undefined;
  realTimer: NodeJS.Timeout | NodeJS.Immediate | undefined;
}

/** Largest number of answers in one turn of a recorded call. */
const MAX_BATCH = 64;
const keyOf = (kind: TurnKind, id: number): string => `${kind} ${id}`;
const describe = ([kind, , ...ids]: Turn): string =>
  (ids.length === 0 ? kind : `${kind} ${ids.join(", ")}`).slice(0, 200);

/**
 * Schedules the turns of one isolate. The owner reports events, and calls `next` whenever the guest is idle.
 * @typeParam Deadline the end of a turn's time on the worker's main thread, passed through
 */
export class TurnScheduler<Deadline> {
  readonly #mode: TurnMode;
  readonly #turns: readonly Turn[];
  readonly #log: TurnLog | undefined;
  readonly #wake: () => void;
  readonly #waits = new Map<string, Wait<Deadline>>();
  /** Waits that are ready, in the order of events. Only for `record`. */
  #ready: Wait<Deadline>[] = [];
  #now: number;
  #order = 0;
  /** Index of the next recorded turn. */
  #position = 0;
  #timers = 0;
  /** Pacing of `virtual`: the virtual and the real time at the start. */
  readonly #pace: { readonly virtual: number; readonly real: number };
  #paceTimer: NodeJS.Timeout | undefined;
  /** Chunks of a stream that the reader has not consumed, and their sizes. */
  #chunkSizes: number[] = [];
  #chunkUnits = 0;
  #credited = 0;
  /** Number of chunks that a replayed call has sent, and of those that its recorded turns have credited. */
  #sent = 0;
  #taken = 0;
  #divergence: TurnDivergence | undefined;
  readonly #rollbackMs: number | undefined;

  /** @param wake called when `next` may return a turn after it had returned undefined */
  constructor({ mode = "virtual", now, turns = [], rollbackMs }: TurnOptions, wake: () => void) {
    this.#mode = mode;
    this.#turns = turns;
    this.#rollbackMs = rollbackMs;
    this.#wake = wake;
    this.#now = now;
    this.#log = mode === "record" || mode === "resume" ? new TurnLog() : undefined;
    this.#pace = { virtual: now, real: performance.now() };
  }

  /** Whether turns follow the order of events. */
  get #isLive(): boolean {
    return this.#mode === "record" || (this.#mode === "resume" && this.#position >= this.#turns.length);
  }

  get #isReplaying(): boolean {
    return this.#mode === "replay" || (this.#mode === "resume" && this.#position < this.#turns.length);
  }

  get hasTimers(): boolean {
    return this.#timers > 0;
  }

  /** Set if the guest needs another turn than the recording has. */
  get divergence(): TurnDivergence | undefined {
    return this.#divergence;
  }

  /** Returns the recorded turns that were not reported yet. */
  takeReport(): TurnReport | undefined {
    return this.#log?.take();
  }

  /** Returns the first recorded turn that the call did not need, after its end. */
  checkEnd(): TurnDivergence | undefined {
    const turn = this.#isReplaying ? this.#turns[this.#position] : undefined;
    if (turn !== undefined) this.#diverge(describe(turn), "the call has ended");
    return this.#divergence;
  }

  #diverge(expected: string, actual: string): undefined {
    this.#divergence ??= { turn: this.#position, expected, actual };
  }

  #add(kind: TurnKind, id: number, dueAt: number): Wait<Deadline> {
    this.#order += 1;
    const wait = {
      kind,
      id,
      order: this.#order,
      dueAt,
      args: undefined,
      until: undefined,
      onLeft: undefined,
      realTimer: undefined,
    };
    this.#waits.set(keyOf(kind, id), wait);
    return wait;
  }

  #settle(wait: Wait<Deadline>, args: readonly unknown[]): void {
    if (wait.args !== undefined) return;
    wait.args = args;
    if (this.#isLive) this.#ready.push(wait);
    this.#wake();
  }

  /** Starts the evaluation of the bundle, or a call. */
  start(kind: "load" | "call", args: readonly unknown[], until?: Deadline): void {
    const wait = this.#add(kind, 0, this.#now);
    wait.until = until;
    this.#settle(wait, args);
  }

  /** The guest has requested an answer of the host, or has started a job. */
  begin(kind: "answer" | "job", id: number): void {
    this.#add(kind, id, this.#now);
  }

  /**
   * The answer or the result has arrived.
   * @param latencyMs how long it took by the virtual clock
   */
  complete(
    kind: "answer" | "job",
    id: number,
    args: readonly unknown[],
    {
      latencyMs = 0,
      until,
      onLeft,
    }: { readonly latencyMs?: number; readonly until?: Deadline; readonly onLeft?: () => void } = {},
  ): void {
    const wait = this.#waits.get(keyOf(kind, id));
    if (wait === undefined || wait.args !== undefined) {
      onLeft?.();
      return;
    }
    wait.dueAt += latencyMs;
    wait.until = until;
    wait.onLeft = onLeft;
    this.#settle(wait, args);
  }

  /** The recording of a rehearsed call has no answer to the request: it comes after everything else that the guest waits for. */
  leaveOpen(id: number): void {
    const wait = this.#waits.get(keyOf("answer", id));
    if (wait === undefined || wait.args !== undefined) return;
    wait.dueAt = Number.POSITIVE_INFINITY;
    this.#wake();
  }

  /** Starts a timer again or for the first time. A negative delay clears it. */
  setTimer(id: number, delayMs: number): void {
    this.#dropTimer(id);
    if (delayMs < 0) return;
    const wait = this.#add("timer", id, this.#now + delayMs);
    this.#timers += 1;
    if (this.#isLive) this.#startRealTimer(wait, delayMs);
    else wait.args = [id];
  }

  #startRealTimer(wait: Wait<Deadline>, delayMs: number): void {
    const fire = (): void => this.#settle(wait, [wait.id]);
    wait.realTimer = delayMs <= 0 ? setImmediate(fire) : setTimeout(fire, delayMs);
  }

  #dropTimer(id: number): void {
    const known = this.#waits.get(keyOf("timer", id));
    if (known === undefined) return;
    this.#remove(known);
    known.realTimer?.[Symbol.dispose]();
    if (known.args !== undefined) this.#ready = this.#ready.filter((wait) => wait !== known);
  }

  /** The guest has sent a chunk of this size to the reader of its stream. */
  sendChunk(units: number): void {
    this.#sent += 1;
    if (this.#isLive || this.#isReplaying) return;
    this.#chunkSizes.push(units);
    this.#chunkUnits += units;
    const isFull = this.#chunkSizes.length >= STREAM_WINDOW.chunks || this.#chunkUnits >= STREAM_WINDOW.units;
    // By the virtual clock, the guest waits until the reader has consumed all chunks.
    if (isFull && !this.#waits.has(keyOf("credit", 0))) this.#add("credit", 0, this.#now);
  }

  /** The reader of the stream has consumed this number of chunks. */
  credit(chunks: number): void {
    if (this.#isLive) {
      this.#settle(this.#add("credit", this.#order + 1, this.#now), [chunks]);
      return;
    }
    this.#credited += chunks;
    if (this.#mode === "replay") this.#wake();
    else this.#settleCredit();
  }

  #settleCredit(): void {
    const wait = this.#waits.get(keyOf("credit", 0));
    const sent = this.#chunkSizes.length;
    if (wait === undefined || this.#credited < sent) return;
    this.#credited -= sent;
    this.#chunkSizes = [];
    this.#chunkUnits = 0;
    this.#settle(wait, [sent]);
  }

  #remove(wait: Wait<Deadline>): void {
    this.#waits.delete(keyOf(wait.kind, wait.id));
    if (wait.kind === "timer") this.#timers -= 1;
  }

  /** Returns the next turn if it can start now. The guest must be idle. */
  next(): PlannedTurn<Deadline> | undefined {
    if (this.#divergence !== undefined) return undefined;
    if (this.#isReplaying) return this.#nextRecorded();
    return this.#mode === "record" || this.#mode === "resume" ? this.#nextLive() : this.#nextVirtual();
  }

  /** Takes the turn of these waits, which are ready. */
  #take(waits: readonly Wait<Deadline>[], at: number): PlannedTurn<Deadline> {
    const [first] = waits as readonly [Wait<Deadline>];
    this.#now = Math.max(this.#now, at);
    for (const wait of waits) this.#remove(wait);
    if (first.kind === "rollback") this.clear();
    const isCredit = first.kind === "credit";
    const ids = isCredit ? (first.args as number[]) : waits.flatMap(({ id }) => (id === 0 ? [] : [id]));
    this.#log?.add([first.kind, this.#now, ...ids]);
    const onLeft = first.onLeft;
    const args = waits.length === 1 ? (first.args ?? []) : waits.flatMap((wait) => wait.args ?? []);
    return {
      kind: first.kind,
      at: this.#now,
      args,
      until: waits.findLast((wait) => wait.until !== undefined)?.until,
      onLeft,
    };
  }

  #nextLive(): PlannedTurn<Deadline> | undefined {
    const [first] = this.#ready;
    if (first === undefined) return undefined;
    let size = 1;
    while (first.kind === "answer" && size < MAX_BATCH && this.#ready[size]?.kind === "answer") size += 1;
    return this.#take(this.#ready.splice(0, size), Date.now());
  }

  /** The event that is due first by the virtual clock. If it is not ready, the clock stands still until it is. */
  #nextVirtual(): PlannedTurn<Deadline> | undefined {
    let first: Wait<Deadline> | undefined;
    for (const wait of this.#waits.values()) {
      if (first === undefined || wait.dueAt < first.dueAt || (wait.dueAt === first.dueAt && wait.order < first.order))
        first = wait;
    }
    if (first?.dueAt === Number.POSITIVE_INFINITY) return this.#diverge("the end of the call", this.#describeWaits());
    if (first?.args === undefined) return undefined;
    if (this.#mode === "virtual" && first.kind === "timer" && !this.#isTimeFor(first.dueAt)) return undefined;
    return this.#take([first], first.dueAt);
  }

  /** Whether as much real time has passed as the virtual clock has at this time. If not, wakes the owner then. */
  #isTimeFor(dueAt: number): boolean {
    const leftMs = dueAt - this.#pace.virtual - (performance.now() - this.#pace.real);
    if (leftMs <= 0) return true;
    clearTimeout(this.#paceTimer);
    this.#paceTimer = setTimeout(this.#wake, Math.ceil(leftMs));
    return false;
  }

  #nextRecorded(): PlannedTurn<Deadline> | undefined {
    const turn = this.#turns[this.#position];
    if (turn === undefined) {
      // The call has not ended, although its recording has.
      return this.#diverge("the end of the recording", this.#describeWaits());
    }
    const [kind, at, ...ids] = turn;
    const waits: Wait<Deadline>[] = [];
    for (const id of kind === "credit" || ids.length === 0 ? [0] : ids) {
      if (kind === "credit") this.#settleRecordedCredit(ids[0] ?? 0);
      else if (kind === "rollback") this.#addRollback();
      const wait = this.#waits.get(keyOf(kind, id));
      // A call starts after its bundle is loaded, so it may still be on its way.
      if (wait === undefined) return kind === "call" ? undefined : this.#diverge(describe(turn), this.#describeWaits());
      if (wait.args === undefined) return undefined;
      waits.push(wait);
    }
    const planned = this.#take(waits, at);
    this.#position += 1;
    if (this.#isLive) this.#goLive();
    return planned;
  }

  /**
   * The reader of a replay may be slower than that of the recorded call. The turn waits until the reader has consumed as many chunks, so that
   * no more are on their way than the host accepts. A replay without a reader sends no chunks, so it never waits.
   */
  #settleRecordedCredit(chunks: number): void {
    const wait = this.#waits.get(keyOf("credit", 0)) ?? this.#add("credit", 0, this.#now);
    const isTaken = this.#mode !== "replay" || this.#credited >= Math.min(this.#sent, this.#taken + chunks);
    if (wait.args !== undefined || !isTaken) return;
    wait.args = [chunks];
    this.#taken += chunks;
  }

  #addRollback(): Wait<Deadline> {
    const wait = this.#add("rollback", 0, this.#now);
    wait.args = [this.#rollbackMs];
    return wait;
  }

  /** All recorded turns have run: pending timers continue in real time, or the call is rolled back. */
  #goLive(): void {
    const isRolledBack = this.#turns.some(([kind]) => kind === "rollback");
    if (this.#rollbackMs !== undefined && !isRolledBack) {
      this.#ready.push(this.#addRollback());
      return;
    }
    const timers: Wait<Deadline>[] = [];
    for (const wait of this.#waits.values()) {
      if (wait.kind === "timer") timers.push(wait);
      else if (wait.args !== undefined) this.#ready.push(wait);
    }
    // Timers that are overdue fire in the order in which they start here.
    timers.sort((a, b) => a.dueAt - b.dueAt || a.order - b.order);
    for (const timer of timers) {
      timer.args = undefined;
      this.#startRealTimer(timer, timer.dueAt - Date.now());
    }
  }

  #describeWaits(): string {
    const waits = [...this.#waits.values()].slice(0, 5).map(({ kind, id }) => `${kind} ${id}`);
    return waits.length === 0 ? "the guest waits for nothing" : `the guest waits for ${waits.join(", ")}`;
  }

  /** Forgets everything that the guest waits for, at the end of a call. */
  clear(): void {
    clearTimeout(this.#paceTimer);
    for (const wait of this.#waits.values()) {
      wait.realTimer?.[Symbol.dispose]();
      wait.onLeft?.();
    }
    this.#waits.clear();
    this.#ready = [];
    this.#timers = 0;
  }
}
