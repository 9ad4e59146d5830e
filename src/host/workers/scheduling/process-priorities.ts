// Priorities of the worker processes: who has used how much CPU time, which process yields to which, and whether there is CPU time left.
import { availableParallelism } from "node:os";
import { CAN_RAISE_PRIORITY } from "../health/process-meter.ts";
import type { WorkerProcess } from "../process/worker-process.ts";
import { type CpuUsage, LONG_CALL_MS, LOW_PRIORITY_NICENESS, type OwnerState, Priorities } from "./priority.ts";
import type { Pace } from "./tool-pace.ts";

/** CPU usage in cores from which a process counts as busy. */
export const BUSY_RATE = 0.5;
/**
 * Highest niceness of a process that is not busy, so that the short calls of an owner go before its long ones, which
 * are in another process. Other owners still come first.
 */
const QUIET_NICENESS = 5;
/** Weight of the newest reading in a process's CPU rate. */
const RATE_SMOOTHING = 0.5;
/** Concurrent calls of low-priority owners: enough to keep the cores busy while one waits. */
const MAX_LOW_PRIORITY_CALLS = availableParallelism() + 1;
/** Concurrent calls of low-priority owners up to which one of an unknown tool may join: it may loop too. */
const MAX_UNPROVEN_CALLS = 16;
/** Number of calls that keeps the cores busy, if they compute. */
const SATURATING_CALLS = 2 * availableParallelism();
/** Fraction of all cores below which CPU time counts as idle. Above it, readings are too imprecise. */
const IDLE_BELOW = 0.75;

/** Receives what a balance has measured, and provides the state of owners. */
export interface CpuListener {
  /** CPU time in ms that a process has used since the previous call. */
  onCpu(worker: WorkerProcess, cpuMs: number): void;
  ownerStateOf(owner: string): OwnerState;
}

export class ProcessPriorities {
  readonly #workers: ReadonlySet<WorkerProcess>;
  readonly #listener: CpuListener;
  readonly #owners = new Priorities();
  #hostCpu = process.cpuUsage();
  #balancedAt = 0;

  constructor(workers: ReadonlySet<WorkerProcess>, listener: CpuListener) {
    this.#workers = workers;
    this.#listener = listener;
  }

  /** Priority of an owner, regardless of its processes. */
  get owners(): Pick<Priorities, "recordContendedStart" | "recordFailure" | "nicenessOf" | "isNew"> {
    return this.#owners;
  }

  /** Records that a call in this process has succeeded. */
  recordSuccess({ owner }: WorkerProcess, cpuMs: number): void {
    if (owner === undefined) return;
    const before = this.#owners.nicenessOf(owner);
    this.#owners.recordSuccess(owner, cpuMs);
    if (this.#owners.nicenessOf(owner) === before) return;
    for (const worker of [...this.#workers]) if (worker.owner === owner && worker.isReady) this.apply(worker);
  }

  /** Puts a process behind its owner's other processes, or ends that. */
  setBackground(worker: WorkerProcess, isBackground: boolean): void {
    // Without the right to raise a priority again, the process would stay behind for good.
    if (worker.isBackground === isBackground || !CAN_RAISE_PRIORITY) return;
    worker.isBackground = isBackground;
    if (worker.isReady && !worker.isDead) this.apply(worker);
  }

  /** Niceness of a process: its owner's, but at most `QUIET_NICENESS` while it uses little CPU time. */
  nicenessOf({ cpuRate, isBackground }: WorkerProcess, owner: string): number {
    const niceness = this.#owners.nicenessOf(owner);
    if (isBackground) return Math.max(niceness, LOW_PRIORITY_NICENESS);
    const isQuiet = cpuRate < BUSY_RATE && this.#owners.isKnown(owner);
    return isQuiet ? Math.min(niceness, QUIET_NICENESS) : niceness;
  }

  /** Sets the priority of a process, or ends the process if it is idle and its priority cannot be set. */
  apply(worker: WorkerProcess): void {
    if (worker.setNiceness(this.nicenessOf(worker, worker.owner ?? ""))) return;
    // Only root can raise a priority again. The next process starts with a better one.
    if (worker.callCount === 0 && !worker.mustStayOpen) worker.kill();
  }

  /**
   * Returns whether one more call of a low-priority owner may run. All such owners together run no more calls than keep
   * the cores busy. The queue orders them by CPU time used. Calls that have computed for long do not count against one
   * that may be short.
   */
  mayRunLowPriority(owner: string, pace: Pace): boolean {
    if (this.#owners.nicenessOf(owner) < LOW_PRIORITY_NICENESS) return true;
    let running = 0;
    let newCalls = 0;
    for (const worker of this.#workers) {
      if (worker.owner === undefined || this.#owners.nicenessOf(worker.owner) < LOW_PRIORITY_NICENESS) continue;
      running += worker.activeCalls;
      newCalls += worker.newCalls;
    }
    if (pace === "long") return running < MAX_LOW_PRIORITY_CALLS;
    return newCalls < MAX_LOW_PRIORITY_CALLS && (pace === "short" || running < MAX_UNPROVEN_CALLS);
  }

  /** Whether an owner's processes should run few calls at once. */
  isThrottled(owner: string): boolean {
    return this.#owners.isPastShare(owner) || this.#owners.isOnProbation(owner);
  }

  /**
   * Whether an owner may get no further process. More threads past its share would take CPU time from other owners.
   * Under contention an unknown owner must first prove itself.
   */
  mustNotGrow(owner: string): boolean {
    return this.#owners.isPastShare(owner) || (this.#isSaturated && !this.#owners.isKnown(owner));
  }

  get #isSaturated(): boolean {
    let running = 0;
    for (const { activeCalls } of this.#workers) running += activeCalls;
    return running >= SATURATING_CALLS;
  }

  /** Whether there is unused CPU time. */
  get hasIdleCpu(): boolean {
    return this.#owners.coresInUse < IDLE_BELOW * availableParallelism();
  }

  /**
   * Lowers the priority of owners past their share, in favor of owners that are not.
   * @param everyMs does nothing if the last balance was less than this time ago
   */
  balance(now: number, everyMs: number): void {
    if (now - this.#balancedAt < everyMs) return;
    const elapsedMs = Math.max(1, now - this.#balancedAt);
    this.#balancedAt = now;
    const usages = this.#readUsages(elapsedMs);
    const { user, system } = process.cpuUsage(this.#hostCpu);
    this.#hostCpu = process.cpuUsage();
    const hostCpuMs = (user + system) / 1_000;
    const ownerStateOf = (owner: string): OwnerState => this.#listener.ownerStateOf(owner);
    this.#owners.update({ usages, hostCpuMs, elapsedMs, ownerStateOf });
    for (const worker of [...this.#workers]) {
      if (worker.owner !== undefined && worker.isReady) this.apply(worker);
    }
  }

  #readUsages(elapsedMs: number): Map<string, CpuUsage> {
    const usages = new Map<string, CpuUsage>();
    for (const worker of this.#workers) {
      const cpuMs = worker.takeCpuMs();
      worker.cpuRate += (cpuMs / elapsedMs - worker.cpuRate) * RATE_SMOOTHING;
      if (worker.owner === undefined) continue;
      const longCallMs = worker.cpuMsPerCall > LONG_CALL_MS ? cpuMs : 0;
      const use = usages.get(worker.owner) ?? { cpuMs: 0, longCallMs: 0 };
      usages.set(worker.owner, { cpuMs: use.cpuMs + cpuMs, longCallMs: use.longCallMs + longCallMs });
      this.#listener.onCpu(worker, cpuMs);
    }
    return usages;
  }
}
