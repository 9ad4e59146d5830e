// Makes room for processes and their memory: counts processes by owner, and ends idle ones of other owners.
import type { WorkerProcess } from "../process/worker-process.ts";

const MiB = 1024 * 1024;
/**
 * Time in ms after which a process counts as unused, so that it ends for a call of an owner that has processes too. Two owners whose calls take
 * turns at the limit would otherwise end each other's processes for every call.
 */
const UNUSED_AFTER_MS = 1_000;

/** Why an owner needs a slot; see `ProcessRoom.makeSlotFor`. */
export interface SlotNeed {
  /**
   * Whether a call of the owner waits for another one, which needs the slot.
   * @default false
   */
  readonly isNested?: boolean | undefined;
  /**
   * Whether the call can run in none of the owner's processes.
   * @default false
   */
  readonly isWaiting?: boolean | undefined;
}

export interface RoomLimits {
  /** Maximum number of processes, warm ones included. */
  readonly max: number;
  /** Resident memory of all processes together, in MiB. */
  readonly memoryMiB: number;
}

export class ProcessRoom {
  readonly #workers: ReadonlySet<WorkerProcess>;
  readonly #limits: RoomLimits;

  constructor(workers: ReadonlySet<WorkerProcess>, limits: RoomLimits) {
    this.#workers = workers;
    this.#limits = limits;
  }

  /** Number of an owner's processes, or of those without an owner. */
  countOf(owner: string | undefined): number {
    let count = 0;
    for (const worker of this.#workers) if (worker.owner === owner) count += 1;
    return count;
  }

  /** Number of processes that run calls or keep sessions. */
  countInUse(): number {
    let count = 0;
    for (const { callCount, hasSessions } of this.#workers) if (callCount > 0 || hasSessions) count += 1;
    return count;
  }

  /** Bytes by which memory in use plus `memoryMiB` exceeds the budget. */
  excessBytes(memoryMiB: number): number {
    let bytes = (memoryMiB - this.#limits.memoryMiB) * MiB;
    for (const worker of this.#workers) bytes += worker.rssBytes;
    return bytes;
  }

  /** Returns whether memory in use plus `memoryMiB` stays within the budget. One call may always run. */
  hasMemoryFor(memoryMiB: number): boolean {
    return this.excessBytes(memoryMiB) <= 0 || ![...this.#workers].some(({ callCount }) => callCount > 0);
  }

  /**
   * Like `hasMemoryFor`, but evicts idle processes of other owners, least recently used first, and large warm processes.
   */
  makeMemoryFor(memoryMiB: number, owner: string): boolean {
    if (this.hasMemoryFor(memoryMiB)) return true;
    const idle = [...this.#workers].filter(
      ({ callCount, isDead, kind, owner: other }) =>
        callCount === 0 && !isDead && other !== owner && (other !== undefined || kind !== "plain"),
    );
    for (const worker of idle.sort(byEvictionOrder)) {
      worker.kill("room");
      if (this.excessBytes(memoryMiB) <= 0) return true;
    }
    return this.hasMemoryFor(memoryMiB);
  }

  /** If memory exceeds the budget and no process is idle, ends the largest process with its calls. */
  enforceMemory(): void {
    if (this.excessBytes(0) <= 0 || this.makeMemoryFor(0, "")) return;
    let largest: WorkerProcess | undefined;
    for (const worker of this.#workers) if (worker.rssBytes > (largest?.rssBytes ?? 0)) largest = worker;
    largest?.end("budget");
  }

  /**
   * Frees a process slot. Returns whether there is one. An owner that has a process evicts another owner's last one only for a call that waits,
   * and only an unused one without sessions. For a nested call, any idle process is evicted.
   */
  makeSlotFor(owner: string, { isNested = false, isWaiting = false }: SlotNeed = {}): boolean {
    if (this.#workers.size < this.#limits.max) return true;
    const owned = this.countOf(owner);
    const unusedSince = performance.now() - UNUSED_AFTER_MS;
    const isDispensable = (worker: WorkerProcess): boolean => {
      if (isNested || owned === 0 || worker.owner === owner || this.countOf(worker.owner) > owned + 1) return true;
      return isWaiting && !worker.hasSessions && worker.lastUsed < unusedSince;
    };
    const idle = [...this.#workers].filter((worker) => worker.callCount === 0 && isDispensable(worker));
    const [oldest] = idle.sort(byEvictionOrder);
    if (oldest === undefined) {
      if (owned === 0) this.#drainLargestOwner();
      return false;
    }
    oldest.kill("room");
    // A slot is free, so no process needs to drain for one.
    for (const worker of this.#workers) worker.draining = false;
    return true;
  }

  /** No process is idle: the owner with the most processes gives one up when its calls have ended, one at a time. */
  #drainLargestOwner(): void {
    const workers = [...this.#workers];
    if (workers.some((worker) => worker.draining)) return;
    const [largest] = workers.sort(
      (a, b) => this.countOf(b.owner) - this.countOf(a.owner) || a.callCount - b.callCount,
    );
    if (largest !== undefined) largest.draining = true;
  }
}

/** Eviction order: processes with sessions last, then least recently used first. */
const byEvictionOrder = (a: WorkerProcess, b: WorkerProcess): number =>
  Number(a.hasSessions) - Number(b.hasSessions) || a.lastUsed - b.lastUsed;
