// The worker processes as a fleet: how many there are, whose they are, which make room, and who is looked after when. No process
// ever serves two owners.
import { availableParallelism } from "node:os";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { StartBackoff } from "./health/backoff.ts";
import { LAST_NICENESS } from "./health/process-meter.ts";
import type { PythonSources } from "./python-setup.ts";
import {
  type CpuUsage,
  LONG_CALL_MS,
  LOW_PRIORITY_NICENESS,
  NEW_NICENESS,
  type OwnerState,
  Priorities,
} from "./scheduling/priority.ts";
import { FLAVOURS, PYTHON_SPARE_CLASS_MIB, pythonDataBytes, type WorkerKind } from "./worker-kind.ts";
import { WorkerProcess, type WorkerSources, type WorkerStart } from "./worker-process.ts";

export interface FleetOptions {
  /** Processes at most, spares included. */
  readonly max: number;
  /** Processes started ahead, that nobody has used. */
  readonly spares: number;
  /** The same with a Python interpreter loaded, once there is a use for them; none unless stated. */
  readonly pythonSpares?: number;
  /** Processes that one owner may have at one time. */
  readonly maxPerOwner: number;
  /** Resident memory of all processes together, in MiB. */
  readonly memoryMiB: number;
  /** An idle process of an owner is ended after this long. */
  readonly idleMs: number;
}

/** Which kind of process somebody needs. */
export interface ProcessNeed {
  /** `plain` unless stated. */
  readonly flavour?: WorkerKind | undefined;
  /** The operating system's own limit on it; only a spare that was started with the same one fits. */
  readonly dataBytes?: number | undefined;
}

/** Hears what changes: a call was released, a process is ready or has died. */
export interface FleetListener {
  onChange(worker: WorkerProcess): void;
  /** A process may be had now that could not be had before. */
  onRoom(): void;
  /** CPU time that a process has used since the last time. */
  onCpu(worker: WorkerProcess, cpuMs: number): void;
  standingOf(owner: string): OwnerState;
}

/** How often processes that have calls in them are looked at. At 2 GB a second, which is fast, one can grow by 40 MiB meanwhile. */
const WATCH_MS = 20;
/** A host that was held up itself has not waited for an answer: longer gaps count as this much. */
const MAX_ELAPSED_MS = 2 * WATCH_MS;
const REAP_MS = 1_000;
const SURPLUS_MS = 5_000;
/** A host that lives this long is worth a tenth of a second for the code caches of the platform. */
const CHUNK_CACHES_AFTER_MS = 2_000;
const BALANCE_MS = 100;
/** Of the newest reading in a process's rate. */
const RATE_SMOOTHING = 0.5;
/** Calls of owners that go last, at one time: enough to keep the cores busy while one waits. */
const MAX_LAST = availableParallelism() + 1;
/** Calls that keep the cores busy, if they compute. */
const CROWD = 2 * availableParallelism();
/** Of all cores; what is used beyond is too close to all of them to say. */
const IDLE_BELOW = 0.75;
const MAX_STARTING = Math.max(2, availableParallelism());

/** Of a first process, until what it is wrapped in is taken for the cause. */
const MAX_LATE_STARTS = 2;
/** A machine on which workers do not start is not helped by starting more of them. */
const MAX_FAILED_STARTS = 3;
const MiB = 1024 * 1024;

export class WorkerManager implements Disposable {
  #sources: WorkerSources;
  readonly #options: FleetOptions;
  readonly #listener: FleetListener;
  readonly #workers = new Set<WorkerProcess>();
  readonly #reaper: NodeJS.Timeout;
  #watcher: NodeJS.Timeout | undefined;
  #watchedAt = 0;
  #balancedAt = 0;
  #hostCpu = process.cpuUsage();
  readonly #backoff = new StartBackoff();
  #retry: NodeJS.Timeout | undefined;
  readonly #priorities = new Priorities();
  #failedStarts = 0;
  /** Processes for Python, one after the other, that ended before they had an interpreter. */
  #failedPython = 0;
  readonly #startedAt = performance.now();
  #hasAskedForCaches = false;
  readonly #awaitingSnapshot: (() => void)[] = [];
  #closed = false;

  constructor(sources: WorkerSources, options: FleetOptions, listener: FleetListener) {
    this.#sources = sources;
    this.#options = options;
    this.#listener = listener;
    this.#reaper = setInterval(() => this.#reap(), REAP_MS).unref();
  }

  /** Those that take calls now. */
  get open(): readonly WorkerProcess[] {
    return [...this.#workers].filter(
      (one) => one.isReady && !one.isDead && !one.isEnding && !one.isSpent && !one.draining,
    );
  }

  get pids(): readonly number[] {
    return [...this.#workers].flatMap((worker) => worker.pid ?? []);
  }

  /**
   * Starts a first process, with fewer layers of hardening where it will not start with all of them.
   * @throws {ToolError} TOOL_UNAVAILABLE when a required layer does not hold; OVERLOADED, INTERNAL when none starts at all
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
      // A machine under load is no reason to give up a layer; one that keeps a process waiting twice is.
      if (worker.isLate) late += 1;
      if (worker.isLate && late < MAX_LATE_STARTS) continue;
      if (!this.#sources.launcher.retreat()) {
        const cause = new Error(worker.diagnostics);
        throw new ToolError("INTERNAL", "A sandbox process could not be started", { cause });
      }
    }
    this.refillSpares();
  }

  /**
   * There is a use for Python: from now on processes are kept ready for it. Resolves when nobody makes the interpreter's snapshot any more,
   * which takes seconds, once on a machine: no call's clock should run meanwhile.
   */
  openPython(python: PythonSources): Promise<void> {
    this.#sources = { ...this.#sources, python };
    this.refillSpares();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#awaitingSnapshot.push(resolve);
    this.#tellSnapshot();
    return promise;
  }

  #tellSnapshot(hasFailed = this.#closed): void {
    if (this.#awaitingSnapshot.length === 0 || (!hasFailed && this.#isMakingSnapshot())) return;
    for (const tell of this.#awaitingSnapshot.splice(0)) tell();
  }

  /** Those of an owner that can be given a call. One that may have to be killed in a moment is given nothing more. */
  usableBy(owner: string): WorkerProcess[] {
    const usable: WorkerProcess[] = [];
    for (const worker of this.#workers) {
      const isOwn = worker.owner === owner && !worker.singleUse && !worker.isEnding;
      if (isOwn && !worker.draining && !worker.isSpent && !worker.isReleasing) usable.push(worker);
    }
    return usable;
  }

  /** Whether the memory that all have, and so much more, stays within the budget; one call may always run. */
  hasRoomFor(memoryMiB: number): boolean {
    return this.#excessBytes(memoryMiB) <= 0 || ![...this.#workers].some(({ load }) => load > 0);
  }

  /** The same, and idle processes of others are ended for it, the longest unused first; so are large ones that nobody has. */
  makeRoomFor(memoryMiB: number, owner: string): boolean {
    if (this.hasRoomFor(memoryMiB)) return true;
    const idle = [...this.#workers].filter(
      ({ load, isDead, flavour, owner: other }) =>
        load === 0 && !isDead && other !== owner && (other !== undefined || flavour !== "plain"),
    );
    for (const worker of idle.sort(leastMissed)) {
      worker.kill("room");
      if (this.#excessBytes(memoryMiB) <= 0) return true;
    }
    return this.hasRoomFor(memoryMiB);
  }

  /** What there would be past the budget with so much more. */
  #excessBytes(memoryMiB: number): number {
    let bytes = (memoryMiB - this.#options.memoryMiB) * MiB;
    for (const worker of this.#workers) bytes += worker.rssBytes;
    return bytes;
  }

  /**
   * A process that nobody has used: a spare, a new one, or a new one in the place of somebody's idle one.
   */
  takeNew(owner: string, need: ProcessNeed = {}): WorkerProcess | undefined {
    if (this.#mustWait(owner)) return undefined;
    if (this.#othersRun(owner)) this.#priorities.beginsBesideOthers(owner);
    const goesLast = this.#priorities.nicenessOf(owner) === LAST_NICENESS;
    // Whoever goes last for what it has done has no use for one that is ready at once, and the next one has.
    const spare = !goesLast || this.#priorities.isNew(owner) ? this.#bestSpare(need) : undefined;
    const mayStart = spare === undefined && this.#mayStart(goesLast) && this.#makeRoomFor(owner);
    const worker = spare ?? (mayStart ? this.#spawn({ goesLast, ...need }) : undefined);
    if (worker === undefined) return undefined;
    worker.owner = owner;
    // Nobody has used it: a priority that cannot be had is no reason to end it.
    if (worker.isReady) worker.setNiceness(this.#priorities.nicenessOf(owner));
    if (worker.isDead) return undefined;
    this.watch();
    return worker;
  }

  /** Its processes keep coming to a bad end: it is tried again when it has waited. */
  #mustWait(owner: string): boolean {
    const delayMs = this.#backoff.delayMs(owner, performance.now());
    if (delayMs === 0) return false;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#listener.onRoom();
    }, delayMs);
    return true;
  }

  #othersRun(owner: string): boolean {
    for (const worker of this.#workers) if (worker.load > 0 && worker.owner !== owner) return true;
    return false;
  }

  get #isCrowded(): boolean {
    let running = 0;
    for (const { busy } of this.#workers) running += busy;
    return running >= CROWD;
  }

  /** Starting many at one time would make each of them, and all that runs, wait. Those that go last are in nobody's way but each other's. */
  #mayStart(goesLast: boolean): boolean {
    let starting = 0;
    for (const worker of this.#workers) if (!worker.isReady && worker.goesLast === goesLast) starting += 1;
    return starting < MAX_STARTING;
  }

  #bestSpare({ flavour = "plain", dataBytes }: ProcessNeed): WorkerProcess | undefined {
    let best: WorkerProcess | undefined;
    for (const worker of this.#workers) {
      if (worker.owner !== undefined || worker.isEnding) continue;
      if (worker.flavour !== flavour || worker.dataBytes !== dataBytes) continue;
      if (best === undefined || worker.readiness > best.readiness) best = worker;
    }
    return best;
  }

  #countSpares(flavour: WorkerKind): number {
    let count = 0;
    for (const worker of this.#workers) if (worker.owner === undefined && worker.flavour === flavour) count += 1;
    return count;
  }

  #countOf(owner: string | undefined): number {
    let count = 0;
    for (const worker of this.#workers) if (worker.owner === owner) count += 1;
    return count;
  }

  /** True when there is a place. An owner that has a process takes nobody's last one for a second. */
  #makeRoomFor(owner: string): boolean {
    if (this.#workers.size < this.#options.max) return true;
    const owned = this.#countOf(owner);
    const isDispensable = ({ owner: other }: WorkerProcess): boolean =>
      owned === 0 || other === owner || this.#countOf(other) > owned + 1;
    const idle = [...this.#workers].filter((worker) => worker.load === 0 && isDispensable(worker));
    const [oldest] = idle.sort(leastMissed);
    if (oldest === undefined) {
      if (owned === 0) this.#drainFor();
      return false;
    }
    oldest.kill("room");
    // Whoever waited for a place has one.
    for (const worker of this.#workers) worker.draining = false;
    return true;
  }

  /** Nobody is idle: the owner that has most gives one up, when its calls have ended. One at a time. */
  #drainFor(): void {
    const workers = [...this.#workers];
    if (workers.some((worker) => worker.draining)) return;
    const [giver] = workers.sort((a, b) => this.#countOf(b.owner) - this.#countOf(a.owner) || a.load - b.load);
    if (giver !== undefined) giver.draining = true;
  }

  /**
   * Whether an owner may have a further process at once. One more than it may use, if another is on its way out: its place is not
   * free yet. The last quarter of the places is for owners that have none.
   * @param isWaitedFor by a call in a process that it has, which computes nothing meanwhile
   */
  mayGrow(owner: string, isWaitedFor = false): boolean {
    const owned = this.#countOf(owner);
    if (owned === 0) return true;
    // Threads past its share would only keep others from theirs; and in a crowd one that is new shows first what it is.
    const isHeldBack = this.#priorities.isPastShare(owner) || (this.#isCrowded && !this.#priorities.isKnown(owner));
    if (isHeldBack && !isWaitedFor) return false;
    const { maxPerOwner } = this.#options;
    if (owned > maxPerOwner || this.usableBy(owner).length >= maxPerOwner) return false;
    const { max } = this.#options;
    return this.#workers.size - this.#countOf(undefined) < Math.max(2, Math.ceil(max * 0.75));
  }

  #spawn(options: WorkerStart = {}): WorkerProcess {
    const worker = new WorkerProcess(this.#sources, (changed) => this.#onChange(changed), {
      niceness: NEW_NICENESS,
      ...options,
    });
    this.#workers.add(worker);
    return worker;
  }

  refillSpares(): void {
    if (this.#closed || this.#failedStarts >= MAX_FAILED_STARTS) return;
    const { spares, pythonSpares = 0 } = this.#options;
    this.#refill(spares, {});
    if (this.#sources.python === undefined || this.#isMakingSnapshot()) return;
    // Calls still get processes of their own; one that comes up shows that it goes again.
    if (this.#failedPython >= MAX_FAILED_STARTS) return;
    this.#refill(pythonSpares, { flavour: "python", dataBytes: pythonDataBytes(PYTHON_SPARE_CLASS_MIB) });
  }

  /** The first process for Python is at it: a second one beside it would make the same. */
  #isMakingSnapshot(): boolean {
    if (this.#sources.python?.snapshot.bytes.byteLength !== 0) return false;
    for (const { flavour, isPythonReady } of this.#workers) if (flavour === "python" && !isPythonReady) return true;
    return false;
  }

  #refill(wanted: number, need: ProcessNeed): void {
    const { flavour = "plain" } = need;
    const { spareMiB } = FLAVOURS[flavour];
    for (let count = this.#countSpares(flavour); count < wanted; count += 1) {
      const hasPlace = this.#workers.size < this.#options.max;
      const hasRoom = spareMiB === 0 ? this.hasRoomFor(0) : this.#excessBytes(spareMiB) <= 0;
      if (!hasPlace || !hasRoom || !this.#mayStart(false)) return;
      this.#spawn(need);
    }
  }

  #onChange(worker: WorkerProcess): void {
    if (worker.isDead) {
      if (worker.owner !== undefined && worker.hasEndedBadly) {
        this.#backoff.endedBadly(worker.owner, performance.now());
        this.#priorities.endedBadly(worker.owner);
      }
      this.#workers.delete(worker);
      this.#failedStarts = worker.isReady ? 0 : this.#failedStarts + 1;
      if (worker.flavour === "python" && !worker.isPythonReady) this.#failedPython += 1;
    } else if (worker.isReady) {
      this.#failedStarts = 0;
      if (worker.isPythonReady) this.#failedPython = 0;
      if (worker.owner !== undefined && worker.served > 0 && worker.load > 0) this.#setNiceness(worker);
    }
    const isUsedUp = worker.draining || ((worker.singleUse || worker.isSpent) && !worker.hasSessions);
    if (isUsedUp && worker.load === 0 && worker.served > 0) worker.kill(worker.draining ? "room" : undefined);
    if (!this.#closed) this.#listener.onChange(worker);
    this.#tellSnapshot(this.#closed || (worker.isDead && worker.flavour === "python"));
  }

  /** Processes with calls in them are looked after from now on, until there are none. */
  watch(): void {
    if (this.#watcher !== undefined || this.#closed) return;
    this.#watchedAt = performance.now();
    this.#watcher = setInterval(() => this.#look(), WATCH_MS).unref();
  }

  #look(): void {
    const now = performance.now();
    const elapsedMs = Math.min(MAX_ELAPSED_MS, now - this.#watchedAt);
    this.#watchedAt = now;
    let busy = 0;
    for (const worker of [...this.#workers]) {
      if (worker.load === 0) continue;
      busy += 1;
      worker.watch(elapsedMs);
    }
    if (now - this.#balancedAt >= BALANCE_MS) this.#balance(now);
    this.#keepBudget();
    if (busy > 0) return;
    clearInterval(this.#watcher);
    this.#watcher = undefined;
  }

  /** The memory of all is too much, though nobody is idle: the one that has most is ended, its calls with it. */
  #keepBudget(): void {
    if (this.#excessBytes(0) <= 0 || this.makeRoomFor(0, "")) return;
    let largest: WorkerProcess | undefined;
    for (const worker of this.#workers) if (worker.rssBytes > (largest?.rssBytes ?? 0)) largest = worker;
    largest?.end("budget");
  }

  /** A call in this process has ended as it should, and used so much CPU time. */
  endedWell({ owner }: WorkerProcess, cpuMs: number): void {
    if (owner === undefined) return;
    const before = this.#priorities.nicenessOf(owner);
    this.#priorities.endedWell(owner, cpuMs);
    if (this.#priorities.nicenessOf(owner) === before) return;
    for (const worker of [...this.#workers]) if (worker.owner === owner && worker.isReady) this.#setNiceness(worker);
  }

  #setNiceness(worker: WorkerProcess): void {
    if (worker.setNiceness(this.#priorities.nicenessOf(worker.owner ?? ""))) return;
    // Only root may raise a priority again: the next process starts with a better one.
    if (worker.load === 0 && !worker.hasSessions) worker.kill();
  }

  /**
   * Whether one more call of an owner that goes last may run: of those together there are no more than keep the cores busy. Who of
   * them is next, the queue says, by CPU time used.
   */
  mayRunLast(owner: string): boolean {
    if (this.#priorities.nicenessOf(owner) < LOW_PRIORITY_NICENESS) return true;
    let running = 0;
    for (const worker of this.#workers) {
      if (worker.owner !== undefined && this.#priorities.nicenessOf(worker.owner) >= LOW_PRIORITY_NICENESS)
        running += worker.busy;
    }
    return running < MAX_LAST;
  }

  /** Whether an owner is to have few calls at one time in each of its processes. */
  isHeldBack(owner: string): boolean {
    return this.#priorities.isPastShare(owner) || this.#priorities.isOnProbation(owner);
  }

  /** Whether there is CPU time that nobody uses. */
  get hasIdleCpu(): boolean {
    return this.#priorities.coresInUse < IDLE_BELOW * availableParallelism();
  }

  /** Who has used more than its share gives way to those that have not, by priority. */
  #balance(now: number): void {
    const elapsedMs = Math.max(1, now - this.#balancedAt);
    this.#balancedAt = now;
    const uses = new Map<string, CpuUsage>();
    for (const worker of this.#workers) {
      const cpuMs = worker.takeCpuMs();
      worker.cpuRate += (cpuMs / elapsedMs - worker.cpuRate) * RATE_SMOOTHING;
      if (worker.owner === undefined) continue;
      const longCallMs = worker.cpuMsPerCall > LONG_CALL_MS ? cpuMs : 0;
      const use = uses.get(worker.owner) ?? { cpuMs: 0, longCallMs: 0 };
      uses.set(worker.owner, { cpuMs: use.cpuMs + cpuMs, longCallMs: use.longCallMs + longCallMs });
      this.#listener.onCpu(worker, cpuMs);
    }
    const { user, system } = process.cpuUsage(this.#hostCpu);
    this.#hostCpu = process.cpuUsage();
    const hostCpuMs = (user + system) / 1_000;
    this.#priorities.follow({ uses, hostCpuMs, elapsedMs, standingOf: (owner) => this.#listener.standingOf(owner) });
    for (const worker of [...this.#workers]) {
      if (worker.owner !== undefined && worker.isReady) this.#setNiceness(worker);
    }
  }

  /** By a spare, while there is idle time; once. */
  #makeChunkCaches(now: number): void {
    const { chunkCache } = this.#sources;
    const isDue = now - this.#startedAt > CHUNK_CACHES_AFTER_MS && chunkCache.bytes.byteLength === 0;
    if (!isDue || this.#hasAskedForCaches || !this.hasIdleCpu) return;
    const spare = [...this.#workers].find(
      ({ owner, flavour, isReady, served }) => owner === undefined && flavour === "plain" && isReady && served === 0,
    );
    if (spare === undefined) return;
    this.#hasAskedForCaches = true;
    spare.askForChunkCaches(chunkCache);
  }

  #reap(): void {
    const now = performance.now();
    this.#makeChunkCaches(now);
    let surplus = this.#countSpares("plain") - this.#options.spares;
    for (const worker of [...this.#workers]) {
      if (worker.load > 0) continue;
      worker.watchIdle();
      const isOld = worker.owner !== undefined && !worker.hasSessions && now - worker.lastUsed > this.#options.idleMs;
      // The first process may be one more than there are to be spares.
      const isSpare = worker.owner === undefined && worker.flavour === "plain";
      const isSurplus = isSpare && surplus > 0 && now - worker.lastUsed > SURPLUS_MS;
      if (isSurplus) surplus -= 1;
      if (!worker.isDead && (isOld || isSurplus)) worker.kill();
    }
  }

  /**
   * Ends the processes of an owner, those of its single tools included; one that others use too ends when its calls have.
   * @returns how many there were
   */
  endOwner(owner: string, isShared: boolean): number {
    const own = [...this.#workers].filter(
      ({ owner: name, isDead }) => !isDead && (name === owner || name?.startsWith(`${owner} `) === true),
    );
    for (const worker of own) {
      if (!isShared || (worker.load === 0 && !worker.hasSessions)) worker.kill();
      else worker.singleUse = true;
    }
    return own.length;
  }

  /** Ends every process; calls in them hear that they are lost. Twice is a no-op. */
  [Symbol.dispose](): void {
    this.#closed = true;
    this.#tellSnapshot();
    clearInterval(this.#reaper);
    clearInterval(this.#watcher);
    clearTimeout(this.#retry);
    for (const worker of [...this.#workers]) worker.kill();
    this.#sources.launcher[Symbol.dispose]();
  }
}

/** Conversations are ended for want of room when nothing else is left, the longest silent first. */
const leastMissed = (a: WorkerProcess, b: WorkerProcess): number =>
  Number(a.hasSessions) - Number(b.hasSessions) || a.lastUsed - b.lastUsed;
