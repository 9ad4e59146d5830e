// Chooses the process of a job: which of its owner's processes has room, whether it waits for one, and whether it gets a new one.
import { setBounded } from "../../util/bounded-map.ts";
import type { LinkedList } from "../../util/linked-list.ts";
import type { CrashQuarantine } from "../health/crash-quarantine.ts";
import { type Job, mayNest, type PlacedJob } from "../pool-job.ts";
import type { WorkerProcess } from "../process/worker-process.ts";
import type { WorkerManager } from "../worker-manager.ts";
import { BUSY_RATE } from "./process-priorities.ts";
import { PACE_CPU_MS, type Pace } from "./tool-pace.ts";
import type { ProcessNeed } from "./warm-pool.ts";

/**
 * Calls that a process may run at once while it computes. The window grows by as many each time the process is full but
 * mostly waits.
 */
const FIRST_WINDOW = 4;
/** Window for a tenant past its CPU share. The second call keeps another of its tools from waiting. */
const PAST_SHARE_WINDOW = 2;
const NO_WORKERS: readonly WorkerProcess[] = [];
/**
 * Waiting calls from which on a process takes several at once, and the time in ms for which it does. Calls in isolates
 * of their own gain from that at once: while one runs on a thread, the main thread creates the isolate of the next.
 */
const CROWD = { warm: 4, fresh: 1 } as const;
const CROWDED_MS = 250;
const crowdOf = ({ order }: Job): number =>
  order.type === "call" && order.tool.isolateLifetime === "tool" ? CROWD.warm : CROWD.fresh;
/** Time in ms after an owner's last short call for which one of its processes is kept free of computing calls. */
const SHORT_USE_MS = 10_000;
/** Resolution in ms of that time. */
const SHORT_USE_STEP_MS = 500;
const MAX_OWNERS = 10_000;
/**
 * Processes that an owner may have beyond its limit, each for a call that runs alone and is the only one of its tool.
 * Calls that run alone cannot share a process with a tool that loops, as other calls do.
 */
const MAX_FURTHER = 4;
/** Calls that a process of the wrong kind may have less than another one and still come second. */
const MISPLACED = 1_000;
/** The same for a short call in another process than the last one. It only decides between equals. */
const AWAY = 0.5;
/** Time in ms that a call waits for a process that is about to be free before it gets another one. */
const OWN_PROCESS_WAIT_MS = 2;

/** Processes from which on one of them is left for nested calls. With fewer, that would halve the throughput of the calls that may make some. */
const MIN_RESERVING = 3;

/** Returns the process of an owner's last short call, if that was recent. The isolates of its short calls are ready there. */
function homeOfShortCalls(own: readonly WorkerProcess[]): WorkerProcess | undefined {
  let home: WorkerProcess | undefined;
  let latest = performance.now() - SHORT_USE_MS;
  for (const worker of own) {
    if (worker.lastShortAt <= latest) continue;
    home = worker;
    latest = worker.lastShortAt;
  }
  return home;
}

const isSameTool = (one: Job, other: Job): boolean =>
  one.claim.toolKey === other.claim.toolKey && one.session?.id === other.session?.id;

/** Whether each process of an owner that has some runs a call that must not share it. */
const isEachExclusive = (own: readonly WorkerProcess[]): boolean =>
  own.length > 0 && own.every(({ isExclusive }) => isExclusive);

/** How many calls may run in one process. */
export interface CallRoom {
  readonly callsPerWorker: number;
  /** Further nested calls, whose callers wait for them. */
  readonly nestedPerWorker: number;
}

/** What a placement decides by. */
export interface PlacementSources {
  readonly manager: WorkerManager;
  readonly quarantine: CrashQuarantine;
  /** Running jobs of each process. */
  readonly placed: ReadonlyMap<WorkerProcess, LinkedList<PlacedJob>>;
  /** Called when the waiting calls have waited long enough for their process. */
  readonly onWaitEnd: () => void;
}

/** A job next to the processes and calls of its owner. */
interface Situation {
  /** Processes of the owner that take calls. */
  readonly own: readonly WorkerProcess[];
  readonly pace: Pace;
  readonly usesParentSlot: boolean;
  /** Whether the job must not share its process. */
  readonly isAlone: boolean;
  /** Whether it must not share its process, and those of its owner run other tools only. */
  readonly isForOtherTool: boolean;
  /** Processes with calls that have just begun or that compute, of tools not known to be short. */
  readonly unproven: readonly WorkerProcess[];
  /** Whether the owner's last process without such calls is kept free for short calls. */
  readonly isKeptFree: boolean;
  /** Whether the last slot of all is kept free for nested calls. */
  readonly isReserved: boolean;
  /** Process of the owner's last short call. */
  readonly home: WorkerProcess | undefined;
}

export class JobPlacement implements Disposable {
  readonly #room: CallRoom;
  readonly #manager: WorkerManager;
  readonly #quarantine: CrashQuarantine;
  readonly #placed: PlacementSources["placed"];
  readonly #onWaitEnd: () => void;
  /** When an owner's last short call was placed, by performance.now(). */
  readonly #shortUses = new Map<string, number>();
  #rescheduleTimer: NodeJS.Timeout | undefined;
  /** Until when an owner's calls run on threads, by performance.now(): many at once need fewer wake-ups there. */
  readonly #crowdedUntil = new Map<string, number>();

  constructor(room: CallRoom, { manager, quarantine, placed, onWaitEnd }: PlacementSources) {
    this.#room = room;
    this.#manager = manager;
    this.#quarantine = quarantine;
    this.#placed = placed;
    this.#onWaitEnd = onWaitEnd;
  }

  /**
   * Returns the process that a job may run in now, or undefined if it must wait.
   * @param usesParentSlot the call runs in the slot of its parent, so limits on the number of calls do not apply
   * @param waiting queued jobs that can use the same processes
   */
  workerFor(placed: PlacedJob, usesParentSlot: boolean, waiting: number): WorkerProcess | undefined {
    const { job, queuedAt } = placed;
    const pace = this.#paceNow(placed);
    if (!usesParentSlot && !this.#manager.priorities.mayRunLowPriority(job.owner, pace)) return undefined;
    const sessionWorker = job.session?.worker;
    if (sessionWorker !== undefined) return this.#canEnterSession(sessionWorker, job) ? sessionWorker : undefined;
    if (!this.#manager.makeRoomFor(job.memoryMiB, job.owner)) return undefined;
    const own = this.#manager.usableBy(job.owner);
    if (job.fresh) return this.#freshFor(job, own.length);
    if (pace === "short") this.#recordShortUse(job.owner);
    const situation = this.#situationOf(job, { own, pace, usesParentSlot });
    const { isAlone, isForOtherTool } = situation;
    // The processes beyond the owner's limit are for its other tools.
    if (isAlone && !usesParentSlot && !isForOtherTool && this.#hasAllBusy(own)) return undefined;
    const candidates = this.#candidatesFor(situation);
    const loaded = this.#leastLoaded(candidates, situation);
    const isBusyBriefly = loaded === undefined && candidates.some((worker) => worker.runsOnMainThread);
    if (isBusyBriefly && performance.now() - queuedAt < OWN_PROCESS_WAIT_MS) {
      if (waiting >= crowdOf(job)) {
        setBounded(this.#crowdedUntil, job.owner, performance.now() + CROWDED_MS, MAX_OWNERS);
      }
      this.#scheduleSoon();
      return undefined;
    }
    const worker = this.#newFor(job, situation, loaded) ?? loaded;
    if (worker === undefined) return undefined;
    if (pace === "short") {
      worker.lastShortAt = performance.now();
      for (const other of situation.unproven) if (other !== worker) this.#manager.priorities.setBackground(other, true);
    }
    if (worker.callCount === 0) worker.isExclusive = isAlone;
    return worker;
  }

  #situationOf(job: Job, { own, pace, usesParentSlot }: Pick<Situation, "own" | "pace" | "usesParentSlot">): Situation {
    const isAlone = job.exclusive === true || this.#quarantine.has(job.claim.toolKey);
    const unproven = own.some((worker) => worker.unproven > 0)
      ? own.filter((worker) => this.hasUnprovenCalls(worker))
      : NO_WORKERS;
    return {
      own,
      pace,
      usesParentSlot,
      isAlone,
      isForOtherTool: isAlone && !usesParentSlot && own.length > 0 && !this.#runsToolOf(job),
      unproven,
      // A process with one call has no room for another tool, so keeping one free would only halve the tool's throughput.
      isKeptFree: !usesParentSlot && job.exclusive !== true && this.#keepsOneFree(job.owner, pace, unproven.length),
      isReserved: mayNest(job) && job.claim.parentSlot === undefined && this.#isLastSlotReserved(),
      home: homeOfShortCalls(own),
    };
  }

  #candidatesFor({ own, unproven, isKeptFree, isReserved }: Situation): readonly WorkerProcess[] {
    const allowed = isKeptFree ? unproven : own;
    return isReserved ? allowed.filter((worker) => this.#hasCallThatMayNest(worker)) : allowed;
  }

  /** Returns a further process for a job, if it should not run in the least loaded one and the owner may have another. */
  #newFor(job: Job, situation: Situation, loaded: WorkerProcess | undefined): WorkerProcess | undefined {
    const { own, pace, usesParentSlot, isAlone, isForOtherTool, unproven, isKeptFree, isReserved, home } = situation;
    if (isKeptFree || isReserved) return undefined;
    const isWaiting = loaded === undefined;
    // A process whose call waits for this one counts as idle.
    const isCrowded = isWaiting || (loaded.callCount > 0 && !usesParentSlot);
    const wouldDisplaceShort = pace === "long" && !isWaiting && loaded === home;
    if (!isCrowded && !wouldDisplaceShort) return undefined;
    const hasNoneForShort = pace === "short" && unproven.length === own.length;
    // Another tool's call that may compute without end keeps it from running.
    const isShutOut = isWaiting && (isForOtherTool || (!isAlone && isEachExclusive(own)));
    const isHomeless = isWaiting && !this.#manager.hasLastingProcess(job.owner);
    const isWaitedFor = usesParentSlot || hasNoneForShort || wouldDisplaceShort || isShutOut || isHomeless;
    // Its caller may keep a process of its own until the call has ended: to wait for that one would be for ever.
    const isNested = usesParentSlot && isAlone;
    const further = isShutOut ? MAX_FURTHER : 0;
    if (!this.#manager.mayGrow(job.owner, { isWaitedFor, isNested, isWaiting, further })) return undefined;
    return this.#takeNew(job, { isNested, isShutOut, isWaiting });
  }

  /**
   * Returns the pace by which a call is placed. A long call waits for long calls of its own tool and of other tenants, not for another tool of
   * its tenant: if that one computes without end, it would wait until its timeout. It then counts as a call of an unknown tool.
   */
  #paceNow({ job, pace }: PlacedJob): Pace {
    if (pace !== "long") return pace;
    let runsOthers = false;
    for (const [worker, jobs] of this.#placed) {
      for (const { job: other } of jobs.toArray()) {
        // A tenant's tools in another language, and its sessions, have owners of their own.
        if (worker.owner !== job.owner && other.claim.account !== job.claim.account) continue;
        if (isSameTool(other, job)) return "long";
        runsOthers = true;
      }
    }
    return runsOthers ? "unknown" : "long";
  }

  /**
   * Whether all processes but one have calls that may make nested calls, which may need another process: a tenant's tools in another language do.
   * If such calls held every process, all of them would wait for each other. The last one is for calls that end by themselves.
   */
  #isLastSlotReserved(): boolean {
    const { max } = this.#manager;
    if (max < MIN_RESERVING || this.#placed.size < max - 1) return false;
    let held = 0;
    for (const worker of this.#placed.keys()) if (this.#hasCallThatMayNest(worker)) held += 1;
    return held >= max - 1;
  }

  #hasCallThatMayNest(worker: WorkerProcess): boolean {
    return (
      this.#placed
        .get(worker)
        ?.toArray()
        .some(({ job }) => mayNest(job)) === true
    );
  }

  /** Whether a call of the job's tool runs in a process of the owner. */
  #runsToolOf(job: Job): boolean {
    for (const [worker, jobs] of this.#placed) {
      if (worker.owner === job.owner && jobs.toArray().some((other) => isSameTool(other.job, job))) return true;
    }
    return false;
  }

  /** Whether calls compute in as many processes as an owner may have. */
  #hasAllBusy(own: readonly WorkerProcess[]): boolean {
    return own.filter(({ callCount, isNesting }) => callCount > 0 && !isNesting).length >= this.#manager.maxPerOwner;
  }

  /** Returns the process with the fewest calls among those with room. */
  #leastLoaded(
    candidates: readonly WorkerProcess[],
    { pace, usesParentSlot, isAlone, unproven, home }: Situation,
  ): WorkerProcess | undefined {
    const { callsPerWorker, nestedPerWorker } = this.#room;
    let best: WorkerProcess | undefined;
    let bestScore = Number.POSITIVE_INFINITY;
    for (const worker of candidates) {
      if (worker.runsOnMainThread) continue;
      const window = usesParentSlot ? callsPerWorker + nestedPerWorker : worker.window;
      const counted = pace === "long" ? worker.activeCalls : worker.newCalls;
      const isBelow = counted < window && worker.callCount < callsPerWorker + nestedPerWorker;
      const hasRoom = worker.callCount === 0 || (!isAlone && !worker.isExclusive && isBelow);
      // A short call prefers a process without calls that may be long, and those prefer one with. That also holds when
      // all long calls have just ended and the next ones begin.
      const isMisplaced =
        unproven.length > 0 ? (pace !== "short") !== unproven.includes(worker) : pace === "long" && worker === home;
      const isAway = pace === "short" && worker !== home;
      const score = worker.callCount + (isMisplaced ? MISPLACED : 0) + (isAway ? AWAY : 0);
      if (hasRoom && score < bestScore) {
        best = worker;
        bestScore = score;
      }
    }
    return best;
  }

  #recordShortUse(owner: string): void {
    const now = performance.now();
    const last = this.#shortUses.get(owner);
    if (last === undefined || now - last > SHORT_USE_STEP_MS) setBounded(this.#shortUses, owner, now, MAX_OWNERS);
  }

  /**
   * Whether a call must leave the owner's last process without unproven calls to its short calls, so that a tool that
   * loops delays only its own calls. An unknown tool may loop too, but counts only if the owner has short calls.
   */
  #keepsOneFree(owner: string, pace: Pace, unproven: number): boolean {
    if (pace === "short" || unproven === 0 || unproven < this.#manager.maxPerOwner - 1) return false;
    return pace === "long" || performance.now() - (this.#shortUses.get(owner) ?? -SHORT_USE_MS) < SHORT_USE_MS;
  }

  /** Schedules again when the waiting calls have waited long enough for their process. */
  #scheduleSoon(): void {
    this.#rescheduleTimer ??= setTimeout(() => {
      this.#rescheduleTimer = undefined;
      this.#onWaitEnd();
    }, OWN_PROCESS_WAIT_MS);
  }

  /** Whether the process has calls, of tools not known to be short, that have just begun or that compute. */
  hasUnprovenCalls(worker: WorkerProcess): boolean {
    if (worker.unproven === 0) return false;
    const since = worker.cpuRate >= BUSY_RATE ? 0 : performance.now() - PACE_CPU_MS[worker.kind].long;
    for (const { pace, placedAt } of this.#placed.get(worker)?.toArray() ?? []) {
      if (pace !== "short" && placedAt > since) return true;
    }
    return false;
  }

  /** Whether a call may run on the main thread of its process: that is free for it, and the tool's calls are short. */
  runsOnMainThread({ job, pace }: PlacedJob, worker: WorkerProcess): boolean {
    const { order, session, inputBytes } = job;
    if (order.type !== "call" || session !== undefined || inputBytes !== undefined) return false;
    if (!worker.isFree) return false;
    const isPlain = order.stream === undefined && order.deterministic === undefined && order.prewarm === undefined;
    return isPlain && pace === "short" && performance.now() > (this.#crowdedUntil.get(job.owner) ?? 0);
  }

  /**
   * Whether the session's process has room. It has none if a call in it, or the job, must run alone, or if it is full.
   */
  #canEnterSession(sessionWorker: WorkerProcess, job: Job): boolean {
    const { callsPerWorker, nestedPerWorker } = this.#room;
    if (sessionWorker.isEnding || sessionWorker.isReleasing) return false;
    const isAlone = job.exclusive === true || sessionWorker.isExclusive;
    return sessionWorker.callCount === 0 || (!isAlone && sessionWorker.callCount < callsPerWorker + nestedPerWorker);
  }

  #takeNew(
    { owner, kind, dataBytes, interpreter }: Job,
    urgency: Pick<ProcessNeed, "isNested" | "isShutOut" | "isWaiting"> = {},
  ): WorkerProcess | undefined {
    const worker = this.#manager.takeNew(owner, { kind, dataBytes, interpreter, ...urgency });
    const window = this.#manager.priorities.isThrottled(owner) ? PAST_SHARE_WINDOW : FIRST_WINDOW;
    if (worker !== undefined) worker.window = Math.min(window, this.#room.callsPerWorker);
    return worker;
  }

  /**
   * An owner's first process stays with it, unless the job is `singleUse`. Any further one runs this job and is ended.
   */
  #freshFor(job: Job, owned: number): WorkerProcess | undefined {
    const worker = this.#takeNew(job);
    if (worker === undefined) return undefined;
    worker.singleUse = job.singleUse === true || owned > 0;
    // Exclusive until it is empty: a concurrent call could forge the result.
    worker.isExclusive = true;
    return worker;
  }

  /**
   * Adapts the number of calls that a process may run at once. A process that mostly waits gets more calls; one that
   * computes does not, because more threads than cores only slow each other down.
   */
  adaptWindow(worker: WorkerProcess): void {
    const { callsPerWorker } = this.#room;
    if (worker.owner !== undefined && this.#manager.priorities.isThrottled(worker.owner))
      worker.window = Math.min(PAST_SHARE_WINDOW, callsPerWorker);
    else if (worker.cpuRate >= BUSY_RATE) worker.window = FIRST_WINDOW;
    else if (worker.callCount >= worker.window && this.#manager.priorities.hasIdleCpu)
      worker.window = Math.min(worker.window + FIRST_WINDOW, callsPerWorker);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#rescheduleTimer);
  }
}
