// The warm pool: unused processes that are started ahead, so that a tenant's first call does not wait for a start. For Python tools, some of
// them have an interpreter loaded.

import type { WorkerProcess } from "../process/worker-process.ts";
import type { PythonSources } from "../spawn/python-setup.ts";
import { pythonDataBytes, WARM_PYTHON_CLASS_MIB, WORKER_KINDS, type WorkerKind } from "../worker-kind.ts";
import type { ProcessRoom } from "./process-eviction.ts";

export interface WarmPoolOptions {
  /** Unused processes that are started ahead. */
  readonly warmProcesses: number;
  /**
   * The same with a Python interpreter loaded, once a Python tool is registered.
   * @default 0
   */
  readonly warmPythonProcesses?: number;
}

/** Requirements on a process. */
export interface ProcessNeed {
  /** @default "plain" */
  readonly kind?: WorkerKind | undefined;
  /** Data limit of the operating system. Only a warm process that was started with the same limit fits. */
  readonly dataBytes?: number | undefined;
  /** What a Python process was started from. Default: the newest of the pool. */
  readonly interpreter?: PythonSources | undefined;
  /**
   * Whether a call in another process waits for the call that needs this one. It must not wait for that process in turn, so it may end any idle
   * one.
   * @default false
   */
  readonly isNested?: boolean | undefined;
  /**
   * Whether calls of the owner's other tools keep the call from running in its processes. An owner with a low priority gets a warm process
   * for it.
   * @default false
   */
  readonly isShutOut?: boolean | undefined;
  /**
   * Whether the call can run in none of the owner's processes. It may end another owner's unused process.
   * @default false
   */
  readonly isWaiting?: boolean | undefined;
}

/** Delay in ms before a warm process is replaced. A tenant's first call takes less, and a process that starts would compete with it. */
const REFILL_DELAY_MS = 20;
/** Consecutive failed starts after which no further warm process is started. */
const MAX_FAILED_STARTS = 3;

interface WarmPoolDependencies {
  /** All processes. The unused ones are those without an owner. */
  readonly workers: ReadonlySet<WorkerProcess>;
  readonly room: ProcessRoom;
  readonly options: WarmPoolOptions & { readonly max: number };
  /** What Python processes are started from; undefined until a Python tool is registered. */
  readonly python: () => PythonSources | undefined;
  /** Whether another process may start now. */
  readonly mayStart: () => boolean;
  readonly start: (need: ProcessNeed) => void;
}

export class WarmPool implements Disposable {
  readonly #dependencies: WarmPoolDependencies;
  #refill: NodeJS.Timeout | undefined;
  #failedStarts = 0;
  /** Consecutive Python processes that ended before they had an interpreter. */
  #failedPython = 0;
  readonly #snapshotWaiters: (() => void)[] = [];
  #closed = false;

  constructor(dependencies: WarmPoolDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns the unused process that meets a need and is nearest to being ready. */
  best({ kind = "plain", dataBytes, interpreter }: ProcessNeed): WorkerProcess | undefined {
    const python = kind === "python" ? (interpreter ?? this.#dependencies.python()) : undefined;
    let best: WorkerProcess | undefined;
    for (const worker of this.#dependencies.workers) {
      if (worker.owner !== undefined || worker.isEnding) continue;
      if (worker.kind !== kind || worker.dataBytes !== dataBytes || worker.interpreter !== python) continue;
      if (best === undefined || worker.readiness > best.readiness) best = worker;
    }
    return best;
  }

  /** Number of unused processes of a kind. */
  count(kind: WorkerKind): number {
    let count = 0;
    for (const worker of this.#dependencies.workers) if (worker.owner === undefined && worker.kind === kind) count += 1;
    return count;
  }

  /** Refills the pool shortly, when the call that has taken a process from it is done with its own start. */
  refillSoon(): void {
    if (this.#refill !== undefined || this.#closed) return;
    this.#refill = setTimeout(() => {
      this.#refill = undefined;
      this.refill();
    }, REFILL_DELAY_MS).unref();
  }

  refill(): void {
    if (this.#closed || this.#failedStarts >= MAX_FAILED_STARTS) return;
    const { warmProcesses, warmPythonProcesses = 0 } = this.#dependencies.options;
    this.#fill(warmProcesses, {});
    if (this.#dependencies.python() === undefined || this.#isMakingSnapshot()) return;
    // Calls still start Python processes on demand. If one succeeds, the count is reset.
    if (this.#failedPython >= MAX_FAILED_STARTS) return;
    this.#fill(warmPythonProcesses, { kind: "python", dataBytes: pythonDataBytes(WARM_PYTHON_CLASS_MIB) });
  }

  #fill(wanted: number, need: ProcessNeed): void {
    const { workers, room, options, mayStart, start } = this.#dependencies;
    const { kind = "plain" } = need;
    const { warmMiB } = WORKER_KINDS[kind];
    for (let count = this.count(kind); count < wanted; count += 1) {
      const hasSlot = workers.size < options.max;
      const hasRoom = warmMiB === 0 ? room.hasMemoryFor(0) : room.excessBytes(warmMiB) <= 0;
      if (!hasSlot || !hasRoom || !mayStart()) return;
      start(need);
    }
  }

  /** Records that a process has ended. Too many that end before they are ready stop the refill. */
  recordDeath({ isReady, kind, isPythonReady, endReason }: WorkerProcess): void {
    // It has made room for another process, and has not failed.
    if (endReason === "room") return;
    this.#failedStarts = isReady ? 0 : this.#failedStarts + 1;
    if (kind === "python" && !isPythonReady) this.#failedPython += 1;
  }

  /** Records that a process is ready. */
  recordStart({ isPythonReady }: WorkerProcess): void {
    this.#failedStarts = 0;
    if (isPythonReady) this.#failedPython = 0;
  }

  /** Resolves when no process is making the interpreter's snapshot, or the one that did has ended. */
  whenSnapshotIsMade(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#snapshotWaiters.push(resolve);
    this.resolveWaiters();
    return promise;
  }

  /** Whether the first Python process is making the snapshot. A concurrent one would make the same. */
  #isMakingSnapshot(): boolean {
    if (this.#dependencies.python()?.snapshot.bytes.byteLength !== 0) return false;
    for (const { kind, isPythonReady } of this.#dependencies.workers)
      if (kind === "python" && !isPythonReady) return true;
    return false;
  }

  /** @param hasFailed whether a Python process has ended, which may have been the one that made the snapshot */
  resolveWaiters(hasFailed = false): void {
    if (this.#snapshotWaiters.length === 0) return;
    if (!hasFailed && !this.#closed && this.#isMakingSnapshot()) return;
    for (const resolve of this.#snapshotWaiters.splice(0)) resolve();
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    this.resolveWaiters();
    clearTimeout(this.#refill);
  }
}
