// Manages all worker processes: how many run, which owner has which, which are evicted, and when each is checked. No
// process ever serves two owners.
import { availableParallelism } from "node:os";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LOWEST_PRIORITY } from "./health/process-meter.ts";
import { StartBackoff } from "./health/start-backoff.ts";
import { WorkerProcess } from "./process/worker-process.ts";
import { NEW_NICENESS } from "./scheduling/priority.ts";
import { ProcessRoom, type RoomLimits } from "./scheduling/process-eviction.ts";
import { type CpuListener, ProcessPriorities } from "./scheduling/process-priorities.ts";
import { type ProcessNeed, WarmPool, type WarmPoolOptions } from "./scheduling/warm-pool.ts";
import type { PythonSources } from "./spawn/python-setup.ts";
import type { WorkerSources, WorkerStart } from "./worker-job.ts";

export interface WorkerManagerOptions extends RoomLimits, WarmPoolOptions {
  /** Maximum number of processes of one owner. */
  readonly maxPerOwner: number;
  /** Time in ms after which an owner's idle process is ended. */
  readonly idleMs: number;
}

/** Receives changes: a call was released, or a process is ready or has died. */
export interface WorkerManagerListener extends CpuListener {
  onChange(worker: WorkerProcess): void;
  /** A process may be available that was not before. */
  onRoom(): void;
}

/** Why an owner needs another process; see `WorkerManager.mayGrow`. */
export interface GrowthNeed {
  readonly isWaitedFor: boolean;
  readonly isNested: boolean;
  readonly isWaiting: boolean;
  readonly further: number;
}

/** Interval in ms between checks of busy processes. At a fast 2 GB/s, one can grow by 40 MiB meanwhile. */
const WATCH_MS = 20;
/** Longest time in ms that one interval counts for: a host whose event loop was blocked could not receive an answer. */
const MAX_ELAPSED_MS = 2 * WATCH_MS;
const REAP_MS = 1_000;
const SURPLUS_MS = 5_000;
/** Uptime in ms after which a host makes the code caches of the platform modules, which takes 100 ms. */
const CHUNK_CACHES_AFTER_MS = 2_000;
const BALANCE_MS = 100;
const MAX_STARTING = Math.max(2, availableParallelism());

/** Late starts of the first process after which its hardening layers count as the cause. */
const MAX_LATE_STARTS = 2;
export class WorkerManager implements Disposable {
  #sources: WorkerSources;
  readonly #options: WorkerManagerOptions;
  readonly #listener: WorkerManagerListener;
  readonly #workers = new Set<WorkerProcess>();
  readonly #reaper: NodeJS.Timeout;
  #watcher: NodeJS.Timeout | undefined;
  #watchedAt = 0;
  readonly #backoff = new StartBackoff();
  #retry: NodeJS.Timeout | undefined;
  readonly #room: ProcessRoom;
  /** Priorities of the processes, and what CPU time is left. */
  readonly priorities: ProcessPriorities;
  readonly #warm: WarmPool;
  readonly #startedAt = performance.now();
  #hasRequestedCaches = false;
  #closed = false;

  constructor(sources: WorkerSources, options: WorkerManagerOptions, listener: WorkerManagerListener) {
    this.#sources = sources;
    this.#options = options;
    this.#listener = listener;
    this.#room = new ProcessRoom(this.#workers, options);
    this.priorities = new ProcessPriorities(this.#workers, listener);
    this.#warm = new WarmPool({
      workers: this.#workers,
      room: this.#room,
      options,
      python: () => this.#sources.python,
      mayStart: () => this.#mayStart(false),
      start: (need) => this.#spawn(need),
    });
    this.#reaper = setInterval(() => this.#reap(), REAP_MS).unref();
  }

  /** Processes that take calls now. */
  get open(): readonly WorkerProcess[] {
    return [...this.#workers].filter(
      (worker) => worker.isReady && !worker.isDead && !worker.isEnding && !worker.acceptsNoCalls && !worker.draining,
    );
  }

  /** Maximum number of processes. */
  get max(): number {
    return this.#options.max;
  }

  /** Maximum number of processes of one owner. */
  get maxPerOwner(): number {
    return this.#options.maxPerOwner;
  }

  /** All processes, including those that start or end. */
  get all(): readonly WorkerProcess[] {
    return [...this.#workers];
  }

  get pids(): readonly number[] {
    return [...this.#workers].flatMap((worker) => worker.pid ?? []);
  }

  /**
   * Starts a first process, with fewer layers of hardening if it does not start with all of them.
   * @throws {ToolError} TOOL_UNAVAILABLE when a required layer does not work; INTERNAL when no process starts
   */
  async start(): Promise<void> {
    for (let late = 0; ; ) {
      const { promise, resolve } = Promise.withResolvers<WorkerProcess>();
      const worker = new WorkerProcess(this.#sources, (changed) => {
        resolve(changed);
        this.#onChange(changed);
      });
      this.#workers.add(worker);
      await promise;
      if (worker.isReady) break;
      // One late start can be due to load. A second one counts against the layer.
      if (worker.isLate) late += 1;
      if (worker.isLate && late < MAX_LATE_STARTS) continue;
      if (!this.#sources.launcher.dropLayers()) {
        const cause = new Error(worker.diagnostics);
        throw new ToolError("INTERNAL", "A sandbox process could not be started", { cause });
      }
    }
    this.#warm.refill();
  }

  /**
   * Keeps Python processes of this kind warm from now on, and no others. Resolves when no process is making the interpreter's snapshot: that takes
   * seconds, once on a machine, and no call's clock should run meanwhile.
   */
  openPython(python: PythonSources): Promise<void> {
    this.#sources = { ...this.#sources, python };
    this.#warm.refill();
    return this.#warm.whenSnapshotIsMade();
  }

  /** Keeps no Python processes warm any more, if they have these sources. Those of calls go on. */
  closePython(python: PythonSources): void {
    if (this.#sources.python === python) this.#sources = { ...this.#sources, python: undefined };
  }

  /** Processes of an owner that can take a call. Excludes those that may have to be killed soon. */
  usableBy(owner: string): WorkerProcess[] {
    const usable: WorkerProcess[] = [];
    for (const worker of this.#workers) {
      const isOwn = worker.owner === owner && !worker.singleUse && !worker.isEnding;
      if (isOwn && !worker.draining && !worker.acceptsNoCalls && !worker.isReleasing) usable.push(worker);
    }
    return usable;
  }

  /**
   * Whether a process of the owner takes calls again once it is free, or ends by itself soon. One that is full, stuck, held by the inspector or
   * kept for a session takes none, and may stay for as long as its calls run.
   */
  hasLastingProcess(owner: string): boolean {
    for (const worker of this.#workers)
      if (worker.owner === owner && !worker.singleUse && !worker.acceptsNoCalls) return true;
    return false;
  }

  /** See `ProcessRoom.makeMemoryFor`. */
  makeRoomFor(memoryMiB: number, owner: string): boolean {
    return this.#room.makeMemoryFor(memoryMiB, owner);
  }

  /**
   * Returns an unused process: a warm one, a new one, or a new one in the slot of an evicted idle process. Returns
   * undefined if none is available.
   */
  takeNew(owner: string, need: ProcessNeed = {}): WorkerProcess | undefined {
    if (this.#mustWait(owner)) return undefined;
    if (this.#hasOtherOwnersRunning(owner)) this.priorities.owners.recordContendedStart(owner);
    const idlePriority = this.priorities.owners.nicenessOf(owner) === LOWEST_PRIORITY;
    // An owner demoted for its past usage does not need a process that is ready at once. The next owner does.
    const { isNested, isShutOut = false, isWaiting, ...start } = need;
    const mayUseWarm = !idlePriority || isShutOut || this.priorities.owners.isNew(owner);
    const warmProcess = mayUseWarm ? this.#warm.best(need) : undefined;
    const mayStart =
      warmProcess === undefined &&
      this.#mayStart(idlePriority) &&
      this.#room.makeSlotFor(owner, { isNested, isWaiting });
    const worker = warmProcess ?? (mayStart ? this.#spawn({ idlePriority, ...start }) : undefined);
    if (worker === undefined) return undefined;
    worker.owner = owner;
    // The process is unused: failing to set its priority is not a reason to end it.
    if (worker.isReady) worker.setNiceness(this.priorities.nicenessOf(worker, owner));
    if (worker.isDead) return undefined;
    this.watch();
    return worker;
  }

  /** Whether the owner must wait because its processes keep failing. Placement is retried after the delay. */
  #mustWait(owner: string): boolean {
    const delayMs = this.#backoff.delayMs(owner, performance.now());
    if (delayMs === 0) return false;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#listener.onRoom();
    }, delayMs);
    return true;
  }

  #hasOtherOwnersRunning(owner: string): boolean {
    for (const worker of this.#workers) if (worker.callCount > 0 && worker.owner !== owner) return true;
    return false;
  }

  /**
   * Many concurrent starts would slow down each other and all running calls. Starts with idle scheduling only slow down
   * each other, so they count separately.
   */
  #mayStart(idlePriority: boolean): boolean {
    let starting = 0;
    for (const worker of this.#workers) if (!worker.isReady && worker.idlePriority === idlePriority) starting += 1;
    return starting < MAX_STARTING;
  }

  /**
   * Returns whether an owner may get another process now. It may have one more than its limit while one of them is
   * about to end, because that slot is not free yet. The last quarter of all slots is reserved for owners without a
   * process.
   * @param need.isWaitedFor whether a call of the owner could not run otherwise, or another one waits for it and so computes nothing
   * @param need.isNested whether that call may keep its process until the new one has ended, because each runs alone in its process: processes
   *   in which all calls wait like that do not count, and the reserve is open to it
   * @param need.isWaiting whether the call can run in none of the owner's processes
   * @param need.further processes that the owner may have beyond its limit for this call
   */
  mayGrow(owner: string, { isWaitedFor, isNested, isWaiting, further }: GrowthNeed): boolean {
    const owned = this.#room.countOf(owner);
    if (owned === 0) return true;
    if (isNested) return this.#countComputing(owner) < this.#options.maxPerOwner;
    if (this.priorities.mustNotGrow(owner) && !isWaitedFor) return false;
    const { max } = this.#options;
    const maxOwned = this.#options.maxPerOwner + further;
    if (owned > maxOwned || this.usableBy(owner).length >= maxOwned) return false;
    // Idle processes take nothing from the reserve: they are evicted for an owner without a process, and for a call that waits.
    const taken = isWaiting ? this.#room.countInUse() : this.#workers.size - this.#room.countOf(undefined);
    return taken < Math.max(2, Math.ceil(max * 0.75));
  }

  /** Number of an owner's processes, without those in which each call waits for another call. */
  #countComputing(owner: string): number {
    let count = 0;
    for (const worker of this.#workers) if (worker.owner === owner && !worker.isNesting) count += 1;
    return count;
  }

  #spawn(options: WorkerStart = {}): WorkerProcess {
    const worker = new WorkerProcess(this.#sources, (changed) => this.#onChange(changed), {
      niceness: NEW_NICENESS,
      ...options,
    });
    this.#workers.add(worker);
    return worker;
  }

  /** See `WarmPool.refillSoon`. */
  refillSoon(): void {
    this.#warm.refillSoon();
  }

  #onChange(worker: WorkerProcess): void {
    if (worker.isDead) {
      if (worker.owner !== undefined && worker.hasFailed) {
        this.#backoff.recordFailure(worker.owner, performance.now());
        this.priorities.owners.recordFailure(worker.owner);
      }
      this.#workers.delete(worker);
      this.#warm.recordDeath(worker);
    } else if (worker.isReady) {
      this.#warm.recordStart(worker);
      if (worker.owner !== undefined && worker.servedCalls > 0 && worker.callCount > 0) this.priorities.apply(worker);
    }
    const isUsedUp = worker.draining || ((worker.singleUse || worker.acceptsNoCalls) && !worker.mustStayOpen);
    if (isUsedUp && worker.callCount === 0 && worker.servedCalls > 0) worker.kill(worker.draining ? "room" : undefined);
    if (!this.#closed) this.#listener.onChange(worker);
    this.#warm.resolveWaiters(worker.isDead && worker.kind === "python");
  }

  /** Starts the periodic checks of busy processes, until no process is busy. */
  watch(): void {
    if (this.#watcher !== undefined || this.#closed) return;
    this.#watchedAt = performance.now();
    this.#watcher = setInterval(() => this.#checkBusy(), WATCH_MS).unref();
  }

  #checkBusy(): void {
    const now = performance.now();
    const elapsedMs = Math.min(MAX_ELAPSED_MS, now - this.#watchedAt);
    this.#watchedAt = now;
    let busy = 0;
    for (const worker of [...this.#workers]) {
      if (worker.callCount === 0) continue;
      busy += 1;
      worker.watch(elapsedMs);
    }
    this.priorities.balance(now, BALANCE_MS);
    this.#room.enforceMemory();
    if (busy > 0) return;
    clearInterval(this.#watcher);
    this.#watcher = undefined;
  }

  /** Has an unused warm process make the code caches of the platform modules, once, while there is idle CPU time. */
  #createModuleCaches(now: number): void {
    const { moduleCache } = this.#sources;
    const isDue = now - this.#startedAt > CHUNK_CACHES_AFTER_MS && moduleCache.bytes.byteLength === 0;
    if (!isDue || this.#hasRequestedCaches || !this.priorities.hasIdleCpu) return;
    const warmProcess = [...this.#workers].find(
      ({ owner, kind, isReady, servedCalls }) =>
        owner === undefined && kind === "plain" && isReady && servedCalls === 0,
    );
    if (warmProcess === undefined) return;
    this.#hasRequestedCaches = true;
    warmProcess.requestModuleCaches(moduleCache);
  }

  #reap(): void {
    const now = performance.now();
    this.#createModuleCaches(now);
    let surplus = this.#warm.count("plain") - this.#options.warmProcesses;
    for (const worker of [...this.#workers]) {
      if (worker.callCount > 0) continue;
      worker.watchIdle();
      const isOld = worker.owner !== undefined && !worker.mustStayOpen && now - worker.lastUsed > this.#options.idleMs;
      // The first process can exceed the size of the warm pool. While it starts it is not idle: ended then, it would cost a layer of hardening.
      const isWarm = worker.owner === undefined && worker.kind === "plain" && worker.isReady;
      const isSurplus = isWarm && surplus > 0 && now - worker.lastUsed > SURPLUS_MS;
      if (isSurplus) surplus -= 1;
      // Not while it makes the snapshot, which others use too.
      const isReplaced =
        worker.owner === undefined && worker.isPythonReady && worker.interpreter !== this.#sources.python;
      if (!worker.isDead && (isOld || isSurplus || isReplaced)) worker.kill();
    }
    // Nothing else reports that a process has become unused, or that an owner is no longer past its share of the CPU time.
    this.#listener.onRoom();
  }

  /**
   * Ends an owner's processes, including those of its single tools. A shared one ends after its calls.
   * @returns the number of processes
   */
  endOwner(owner: string, isShared: boolean): number {
    const own = [...this.#workers].filter(
      ({ owner: name, isDead }) => !isDead && (name === owner || name?.startsWith(`${owner} `) === true),
    );
    for (const worker of own) {
      if (!isShared || (worker.callCount === 0 && !worker.mustStayOpen)) worker.kill();
      else worker.singleUse = true;
    }
    return own.length;
  }

  /** Ends every process. Calls in them fail as lost. Calling it twice is a no-op. */
  [Symbol.dispose](): void {
    this.#closed = true;
    this.#warm[Symbol.dispose]();
    clearInterval(this.#reaper);
    clearInterval(this.#watcher);
    clearTimeout(this.#retry);
    for (const worker of [...this.#workers]) worker.kill();
    this.#sources.launcher[Symbol.dispose]();
  }
}
