// Assigns queued calls to worker processes and handles calls whose process dies. Every job that is accepted ends
// exactly once.
import { availableParallelism } from "node:os";
import { ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { EndedMessage } from "../../sandbox/protocol/messages.ts";
import { setBounded } from "../util/bounded-map.ts";
import { CrashQuarantine } from "./health/crash-quarantine.ts";
import type { CallListener, CallLossReason } from "./open-call.ts";
import type { PythonSources } from "./python-setup.ts";
import { type Claim, canUseParentSlot, type Entry, FairQueue } from "./scheduling/fair-queue.ts";
import type { OwnerState } from "./scheduling/priority.ts";
import { LONG_CPU_MS, type Pace, ToolPaces } from "./scheduling/tool-pace.ts";
import { BUSY_RATE, type ProcessNeed, WorkerManager, type WorkerManagerOptions } from "./worker-manager.ts";
import type {
  EndReason,
  SentBundle,
  WorkerJob,
  WorkerProcess,
  WorkerSources,
  WorkerToolProfile,
} from "./worker-process.ts";

export interface WorkerPoolOptions extends WorkerManagerOptions {
  /** Most calls that run in one process at once. */
  readonly callsPerWorker: number;
  /**
   * Further nested calls that may run in one process, while their callers wait for them.
   * @default 0
   */
  readonly nestedPerWorker?: number;
  /** Most calls of all tenants that may wait. */
  readonly maxQueued: number;
}

/** A call for the pool to run. */
export interface Job extends WorkerJob, ProcessNeed {
  /** No process ever serves two owners. All processes of one owner are of the kind that its jobs need. */
  readonly owner: string;
  readonly claim: Claim;
  readonly listener: CallListener;
  readonly memoryMiB: number;
  /** Longest time in ms that the job may wait in the queue. */
  readonly queueMs?: number;
  /** Needs an unused process, and shares it with no other call while it runs. */
  readonly fresh?: boolean;
  /** The process is ended after the job. */
  readonly singleUse?: boolean;
  /** The job runs alone in its process. */
  readonly exclusive?: boolean;
  /** The job may run again after it has begun. */
  readonly idempotent?: boolean;
  /** The session whose isolate it runs in; `order.session` has the session's id. */
  readonly session?: SessionPlacement | undefined;
}

/** Location of a session's isolate. The session's calls run there and nowhere else, one at a time. */
export interface SessionPlacement {
  readonly id: number;
  /** Set when the first call of the session is placed. */
  worker: WorkerProcess | undefined;
  /** The process has ended, and the session's isolate with it. */
  onLost(reason: EndReason | undefined): void;
}

/** A use of a tool: in one process, by one tenant. */
export interface WarmUse {
  readonly worker: WorkerProcess;
  readonly profile: WorkerToolProfile;
  readonly tenantId: string;
  /** Warm isolates that the tenant's calls need there. */
  readonly isolates: number;
}

interface PlacedJob {
  readonly job: Job;
  /** What was known of the tool when the job was queued. */
  readonly pace: Pace;
  /** Jobs with the same key can use the same processes. */
  readonly placementKey: string;
  attempts: number;
  readonly queuedAt: number;
  entry: Entry<PlacedJob> | undefined;
  worker: WorkerProcess | undefined;
  seq: number;
  placedAt: number;
  queueTimer: NodeJS.Timeout | undefined;
  state: "queued" | "placed" | "over";
}

/** Handle of a job. */
export interface Ticket {
  /** Ends the call in the queue or in its process. If the call had begun, its listener still receives how it ended. */
  cancel(): void;
  /** Allows `chunks` more chunks, because the reader has taken as many. */
  credit(chunks: number): void;
  /**
   * Marks the call as waiting for a person or a model, or ends that mark. Each `true` needs one `false`. Other calls
   * may use the slot meanwhile.
   */
  rest(isResting: boolean): void;
  /** Turns `onIdle` events of the listener on or off. */
  watchIdle(isWatched: boolean): void;
}

/** Attempts of a job whose process dies before it has begun. Three deaths in a row are no coincidence. */
const MAX_ATTEMPTS = 3;
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
const MAX_OWNERS = 10_000;
/** Calls that a process of the wrong kind may have less than another one and still come second. */
const MISPLACED = 1_000;
/** Time in ms that a call waits for a process that is about to be free before it gets another one. */
const PATIENCE_MS = 2;

/**
 * Weight of event loop time in CPU time. All calls share one event loop, so its time counts for every core, and the
 * garbage made in it must be collected. The factor 4 is a choice: with 1, 2 and 5 a flood of outputs slowed other
 * tenants about equally, within the noise.
 */
const HOST_TIME_FACTOR = 4 * availableParallelism();

export class WorkerPool implements AsyncDisposable {
  readonly #options: WorkerPoolOptions;
  readonly #manager: WorkerManager;
  readonly #queue: FairQueue<PlacedJob>;
  readonly #quarantine = new CrashQuarantine();
  /** Queued jobs for each placement key. */
  readonly #queuedByKey = new Map<string, number>();
  readonly #placed = new Map<WorkerProcess, Set<PlacedJob>>();
  /** Tenants whose calls have run in a process since its CPU time was last read. */
  readonly #chargedTenants = new Map<WorkerProcess, Set<string>>();
  readonly #sessions = new Map<WorkerProcess, Set<SessionPlacement>>();
  readonly #paces = new ToolPaces();
  /** When an owner's last short call was placed, by performance.now(). */
  readonly #shortUses = new Map<string, number>();
  #patience: NodeJS.Timeout | undefined;
  /** Until when an owner's calls run on threads, by performance.now(): many at once need fewer wake-ups there. */
  readonly #crowdedUntil = new Map<string, number>();
  #scheduling = false;
  #closed = false;

  constructor(sources: WorkerSources, options: WorkerPoolOptions) {
    this.#options = options;
    this.#queue = new FairQueue(options.maxQueued, { countsRoom: true });
    this.#manager = new WorkerManager(sources, options, {
      onChange: (worker) => this.#onChange(worker),
      onRoom: () => this.#schedule(),
      onCpu: (worker, cpuMs) => this.#onCpu(worker, cpuMs),
      ownerStateOf: (owner) => this.#ownerStateOf(owner),
    });
  }

  /** Process ids of all workers, for tests and the operator. */
  get pids(): readonly number[] {
    return this.#manager.pids;
  }

  /** Starts the first process; see `WorkerManager.start`. */
  async start(): Promise<void> {
    await this.#manager.start();
  }

  /** See `WorkerManager.openPython`. */
  async openPython(python: PythonSources): Promise<void> {
    if (!this.#closed) await this.#manager.openPython(python);
  }

  /**
   * Queues or starts a job.
   * @throws {ToolError} TOOL_UNAVAILABLE when the pool is closed; OVERLOADED, with `retryAfterMs`, when the queue is
   * full
   */
  run(job: Job): Ticket {
    if (this.#closed) throw unavailable("closed", "Glovebox is closed");
    const pace = job.order.type === "call" ? this.#paces.paceOf(job.order.tool) : "unknown";
    const placed: PlacedJob = {
      job,
      pace,
      placementKey: placementKeyOf(job, pace),
      attempts: 0,
      queuedAt: performance.now(),
      entry: undefined,
      worker: undefined,
      seq: 0,
      placedAt: 0,
      queueTimer: undefined,
      state: "queued",
    };
    const entry = this.#queue.add(placed, job.claim);
    placed.entry = entry;
    this.#countKey(placed.placementKey, 1);
    this.#schedule();
    if (placed.state === "queued") this.#enqueue(placed, entry);
    return {
      cancel: () => this.#cancel(placed),
      credit: (chunks) => {
        if (placed.state === "placed") placed.worker?.credit(placed.seq, chunks);
      },
      watchIdle: (isWatched) => {
        if (placed.state === "placed") placed.worker?.watchGuest(placed.seq, isWatched);
      },
      rest: (isResting) => {
        if (placed.state !== "placed") return;
        placed.worker?.rest(placed.seq, isResting);
        if (isResting) this.#schedule();
      },
    };
  }

  /**
   * Lists where calls with these profiles have run. Omits processes that serve one job or one call at a time: they have
   * no room.
   */
  usesOf(profiles: readonly WorkerToolProfile[]): readonly WarmUse[] {
    const workers = this.#manager.open.filter(({ singleUse, isExclusive }) => !singleUse && !isExclusive);
    return workers.flatMap((worker) =>
      profiles.flatMap((profile) => worker.usesOf(profile).map((use) => ({ ...use, worker, profile }))),
    );
  }

  /**
   * Makes an isolate of a tool, for a later call, in a process that uses an earlier version of it. It takes no
   * concurrency slot and no place in the queue, because an update must not delay calls. Resolves when the isolate is
   * ready or could not be made. Never rejects.
   */
  async prewarm(
    { worker, profile: earlier, tenantId }: WarmUse,
    profile: WorkerToolProfile,
    bundle: SentBundle,
  ): Promise<void> {
    if (this.#closed || !this.#manager.open.includes(worker)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const listener: CallListener = {
      ...{ onPlaced() {}, onLog() {}, onProgress() {}, onCapability() {}, onPaused() {}, onStuck() {} },
      onEnded: () => resolve(),
      onLost: () => resolve(),
    };
    const like = worker.toolIdOf(earlier);
    const order = { type: "call", tool: profile, callId: "prewarm", tenantId, prewarm: { like } } as const;
    let timer: NodeJS.Timeout | undefined;
    try {
      const seq = worker.start({ order, bundle, input: "" }, listener);
      timer = setTimeout(() => worker.cancel(seq), profile.limits.timeoutMs);
      this.#manager.watch();
      await promise;
    } catch {
      // The process has ended. The next call of the tool starts another one.
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Releases a tool's warm isolates in all processes. Running calls continue.
   * @param bundle the tool's code, which is dropped where no other tool uses it
   */
  release(profiles: readonly WorkerToolProfile[], bundle: SentBundle | undefined): void {
    for (const worker of this.#manager.open) {
      for (const profile of profiles) worker.release(profile, bundle);
    }
  }

  #enqueue(placed: PlacedJob, entry: Entry<PlacedJob>): void {
    const overload = this.#queue.overloadError(entry);
    if (overload !== undefined) {
      this.#leaveQueue(placed, "over");
      throw overload;
    }
    const { queueMs, claim } = placed.job;
    if (queueMs === undefined) return;
    placed.queueTimer = setTimeout(() => {
      const retryAfterMs = this.#queue.retryAfterMs(claim.account);
      const message = `The call waited ${queueMs} ms in the queue; try again in ${retryAfterMs} ms`;
      const cause = new ToolError("OVERLOADED", message, { details: { queueMs, retryAfterMs } });
      this.#giveUp(placed, { begun: false, cause });
    }, queueMs);
  }

  #cancel(placed: PlacedJob): void {
    // No caller waits for it. If the cancellation costs the process, the call is not run again.
    placed.attempts = MAX_ATTEMPTS;
    if (placed.state === "placed") placed.worker?.cancel(placed.seq);
    if (placed.state === "queued") this.#leaveQueue(placed, "over");
  }

  #leaveQueue(placed: PlacedJob, state: PlacedJob["state"]): void {
    clearTimeout(placed.queueTimer);
    if (placed.entry !== undefined && !placed.entry.isRemoved) {
      this.#queue.remove(placed.entry);
      this.#countKey(placed.placementKey, -1);
    }
    placed.state = state;
  }

  #countKey(placementKey: string, change: 1 | -1): void {
    const count = (this.#queuedByKey.get(placementKey) ?? 0) + change;
    if (count > 0) this.#queuedByKey.set(placementKey, count);
    else this.#queuedByKey.delete(placementKey);
  }

  /** Ending a process to make room re-enters this method, so only the outer call runs the loop. */
  #schedule(): void {
    if (this.#scheduling || this.#closed) return;
    this.#scheduling = true;
    try {
      // Each placement can change which job is next.
      while (this.#placeNext());
      this.#manager.refillWarmPool();
    } finally {
      this.#scheduling = false;
    }
  }

  #placeNext(): boolean {
    const blockedKeys = new Set<string>();
    let untried = this.#queue.queued;
    for (const entry of this.#queue.candidates()) {
      const { item } = entry;
      if (blockedKeys.has(item.placementKey)) continue;
      const usesParentSlot = canUseParentSlot(entry);
      const worker = this.#workerFor(item, usesParentSlot);
      if (worker !== undefined) {
        this.#place(item, worker);
        return true;
      }
      // Other jobs with the same key may still fit: this tool may be quarantined, or this nested call may lack its
      // parent's slot.
      const { toolKey, parentSlot } = item.job.claim;
      if (this.#quarantine.has(toolKey) || (parentSlot !== undefined && !usesParentSlot)) continue;
      blockedKeys.add(item.placementKey);
      untried -= this.#queuedByKey.get(item.placementKey) ?? 0;
      // Jobs with the same key are tried once, even if a thousand tenants wait.
      if (untried <= 0) return false;
    }
    return false;
  }

  /** @param usesParentSlot the call runs in the slot of its parent, so limits on the number of calls do not apply */
  #workerFor({ job, pace, placementKey, queuedAt }: PlacedJob, usesParentSlot: boolean): WorkerProcess | undefined {
    if (!usesParentSlot && !this.#manager.mayRunLowPriority(job.owner, pace)) return undefined;
    const sessionWorker = job.session?.worker;
    if (sessionWorker !== undefined) return this.#canEnterSession(sessionWorker, job) ? sessionWorker : undefined;
    if (!this.#manager.makeRoomFor(job.memoryMiB, job.owner)) return undefined;
    const { callsPerWorker, nestedPerWorker = 0 } = this.#options;
    const own = this.#manager.usableBy(job.owner);
    if (job.fresh) return this.#freshFor(job, own.length);
    const isAlone = job.exclusive === true || this.#quarantine.has(job.claim.toolKey);
    if (pace === "short") setBounded(this.#shortUses, job.owner, performance.now(), MAX_OWNERS);
    const unproven = own.some((worker) => worker.unproven > 0)
      ? own.filter((worker) => this.#hasUnprovenCalls(worker))
      : NO_WORKERS;
    const isKeptFree = !usesParentSlot && this.#keepsOneFree(job.owner, pace, unproven.length);
    let best: WorkerProcess | undefined;
    let bestScore = Number.POSITIVE_INFINITY;
    let isBusyBriefly = false;
    for (const worker of isKeptFree ? unproven : own) {
      if (worker.isInside) {
        isBusyBriefly = true;
        continue;
      }
      const window = usesParentSlot ? callsPerWorker + nestedPerWorker : worker.window;
      const counted = pace === "long" ? worker.busy : worker.young;
      const isBelow = counted < window && worker.load < callsPerWorker + nestedPerWorker;
      const hasRoom = worker.load === 0 || (!isAlone && !worker.isExclusive && isBelow);
      // A short call prefers a process without calls that may be long, and those prefer one with.
      const isMisplaced = unproven.length > 0 && (pace !== "short") !== unproven.includes(worker);
      const score = worker.load + (isMisplaced ? MISPLACED : 0);
      if (hasRoom && score < bestScore) {
        best = worker;
        bestScore = score;
      }
    }
    if (isBusyBriefly && best === undefined && performance.now() - queuedAt < PATIENCE_MS) {
      const waiting = this.#queuedByKey.get(placementKey) ?? 0;
      if (waiting >= crowdOf(job)) {
        setBounded(this.#crowdedUntil, job.owner, performance.now() + CROWDED_MS, MAX_OWNERS);
      }
      this.#scheduleSoon();
      return undefined;
    }
    // A process whose call waits for this one counts as idle.
    const isCrowded = best === undefined || (best.load > 0 && !usesParentSlot);
    const hasNoneForShort = pace === "short" && unproven.length === own.length;
    const mayGrow = !isKeptFree && this.#manager.mayGrow(job.owner, usesParentSlot || hasNoneForShort);
    if (isCrowded && mayGrow) best = this.#takeNew(job) ?? best;
    if (pace === "short" && best !== undefined) {
      for (const worker of unproven) if (worker !== best) this.#manager.setBackground(worker, true);
    }
    if (best?.load === 0) best.isExclusive = isAlone;
    return best;
  }

  /**
   * Whether a call must leave the owner's last process without unproven calls to its short calls, so that a tool that
   * loops delays only its own calls. An unknown tool may loop too, but counts only if the owner has short calls.
   */
  #keepsOneFree(owner: string, pace: Pace, unproven: number): boolean {
    if (pace === "short" || unproven === 0 || unproven < this.#manager.maxPerOwner - 1) return false;
    return pace === "long" || performance.now() - (this.#shortUses.get(owner) ?? -SHORT_USE_MS) < SHORT_USE_MS;
  }

  /** Schedules again when the waiting calls may have run out of patience. */
  #scheduleSoon(): void {
    this.#patience ??= setTimeout(() => {
      this.#patience = undefined;
      this.#schedule();
    }, PATIENCE_MS);
  }

  /** Whether the process has calls, of tools not known to be short, that have just begun or that compute. */
  #hasUnprovenCalls(worker: WorkerProcess): boolean {
    if (worker.unproven === 0) return false;
    const since = worker.cpuRate >= BUSY_RATE ? 0 : performance.now() - LONG_CPU_MS;
    for (const { pace, placedAt } of this.#placed.get(worker) ?? []) {
      if (pace !== "short" && placedAt > since) return true;
    }
    return false;
  }

  /** Whether a call may run on the main thread of its process: that is free for it, and the tool's calls are short. */
  #runsOnMainThread({ job, pace }: PlacedJob, worker: WorkerProcess): boolean {
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
    const { callsPerWorker, nestedPerWorker = 0 } = this.#options;
    if (sessionWorker.isEnding || sessionWorker.isReleasing) return false;
    const isAlone = job.exclusive === true || sessionWorker.isExclusive;
    return sessionWorker.load === 0 || (!isAlone && sessionWorker.load < callsPerWorker + nestedPerWorker);
  }

  /** Disposes the session's isolate. Calling it twice is a no-op. */
  endSession(placement: SessionPlacement): void {
    const { worker } = placement;
    if (worker === undefined) return;
    this.#sessions.get(worker)?.delete(placement);
    worker.endSession(placement.id);
  }

  #takeNew({ owner, kind, dataBytes }: Job): WorkerProcess | undefined {
    const worker = this.#manager.takeNew(owner, { kind, dataBytes });
    const window = this.#manager.isThrottled(owner) ? PAST_SHARE_WINDOW : FIRST_WINDOW;
    if (worker !== undefined) worker.window = Math.min(window, this.#options.callsPerWorker);
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

  #place(placed: PlacedJob, worker: WorkerProcess): void {
    const { job, entry } = placed;
    this.#leaveQueue(placed, "placed");
    if (entry !== undefined) this.#queue.begin(entry);
    placed.worker = worker;
    placed.attempts += 1;
    placed.placedAt = performance.now();
    addToSet(this.#placed, worker, placed);
    if (placed.pace !== "short") worker.unproven += 1;
    if (job.session !== undefined && job.session.worker === undefined) {
      job.session.worker = worker;
      // An exclusive session's process must not serve other calls later.
      if (job.exclusive) worker.singleUse = true;
      addToSet(this.#sessions, worker, job.session);
    }
    addToSet(this.#chargedTenants, worker, job.claim.account);
    try {
      placed.seq = worker.start(job, this.#listen(placed, worker), this.#runsOnMainThread(placed, worker));
      this.#manager.watch();
    } catch (thrown) {
      // Part of the call may have been sent. The process is unusable, and the call has not begun.
      this.#giveUp(placed, { begun: false, cause: toToolError(thrown) });
      worker.kill();
      this.#placed.delete(worker);
      this.#chargedTenants.delete(worker);
    }
  }

  #listen(placed: PlacedJob, worker: WorkerProcess): CallListener {
    const { listener, claim } = placed.job;
    return {
      onPlaced: () => listener.onPlaced(),
      onStarted: () => listener.onStarted?.(),
      onPaused: (isHeld) => listener.onPaused(isHeld),
      onIdle: (isIdle) => listener.onIdle?.(isIdle),
      onLog: (level, time, text, place) => listener.onLog(level, time, text, place),
      onProgress: (text) => listener.onProgress(text),
      onCapability: (name, text, answer) => listener.onCapability(name, text, answer),
      onChunks: listener.onChunks,
      onEnded: (message, parts, peakBytes) => {
        this.#finish(placed);
        if (message.outcome === "output" || message.outcome === "streamed") {
          this.#quarantine.recordSuccess(claim.toolKey);
          this.#manager.recordSuccess(worker, message.usage.cpuMs);
        }
        this.#recordPace(placed, worker, message);
        listener.onEnded(message, parts, peakBytes);
      },
      onLost: (loss, peakBytes) => this.#onLost(placed, worker, loss, peakBytes),
      onStuck: () => this.#quarantine.add(claim.toolKey),
    };
  }

  /** The CPU time is reported by the worker, which is not trusted; it only decides about its own tenant's calls. */
  #recordPace({ job, pace }: PlacedJob, worker: WorkerProcess, { outcome, usage }: EndedMessage): void {
    const { order } = job;
    if (order.type !== "call" || order.prewarm !== undefined) return;
    // The division of the CPU time between calls of one process is an estimate, and the others may have computed.
    const isEstimate = pace === "short" && worker.unproven > 0;
    if (outcome === "cpu") this.#paces.recordLong(order.tool);
    else if (outcome !== "cancelled" || usage.cpuMs >= LONG_CPU_MS)
      this.#paces.record(order.tool, usage.cpuMs, isEstimate);
  }

  /** Frees the job's slot in the queue. */
  #finish(placed: PlacedJob): void {
    const { entry, worker } = placed;
    if (placed.state !== "placed" || entry === undefined) return;
    placed.state = "over";
    this.#queue.end(entry, performance.now() - placed.placedAt);
    if (worker === undefined) return;
    this.#placed.get(worker)?.delete(placed);
    if (placed.pace !== "short") worker.unproven -= 1;
  }

  #giveUp(placed: PlacedJob, loss: CallLossReason, peakBytes = 0): void {
    if (placed.state === "over") return;
    if (placed.state === "queued") this.#leaveQueue(placed, "over");
    else this.#finish(placed);
    placed.job.listener.onLost(loss, peakBytes);
  }

  /** Runs a call again if it had not begun, or if its author declared it idempotent. Otherwise the call fails. */
  #onLost(placed: PlacedJob, worker: WorkerProcess, loss: CallLossReason, peakBytes: number): void {
    if (placed.state === "over") return;
    const { job } = placed;
    const isUnstoppable = worker.endReason === "interrupted" || worker.endReason === "stuck";
    if (isUnstoppable && job.order.type === "call") this.#paces.recordLong(job.order.tool);
    if (loss.isSuspect) this.#quarantine.add(job.claim.toolKey);
    const mayRunAgain =
      (!loss.begun || job.idempotent === true) && loss.outOfMemory !== true && job.session === undefined;
    if (mayRunAgain && placed.attempts < MAX_ATTEMPTS && !this.#closed) {
      this.#finish(placed);
      placed.state = "queued";
      placed.worker = undefined;
      placed.entry = this.#queue.putBack(placed, job.claim);
      this.#countKey(placed.placementKey, 1);
      return;
    }
    this.#giveUp(placed, worker.isReady ? loss : { ...loss, cause: notStarted(worker), isNotStarted: true }, peakBytes);
  }

  #onChange(worker: WorkerProcess): void {
    if (worker.isDead) {
      this.#placed.delete(worker);
      this.#chargedTenants.delete(worker);
      this.#loseSessions(worker);
    } else if (worker.load === 0) {
      worker.isExclusive = false;
      this.#manager.setBackground(worker, false);
    }
    this.#schedule();
  }

  /** Calls of a lost session would otherwise wait forever. */
  #loseSessions(worker: WorkerProcess): void {
    const placements = this.#sessions.get(worker);
    if (placements === undefined) return;
    this.#sessions.delete(worker);
    for (const { item } of [...this.#queue.entries()]) {
      if (item.job.session !== undefined && placements.has(item.job.session)) this.#giveUp(item, { begun: false });
    }
    for (const placement of placements) placement.onLost(worker.endReason);
  }

  /**
   * Charges CPU time to the tenants that used the process, in equal parts, and adapts its window. A process that mostly
   * waits gets more calls; one that computes does not, because more threads than cores only slow each other down.
   */
  #onCpu(worker: WorkerProcess, cpuMs: number): void {
    const tenants = this.#chargedTenants.get(worker);
    if (tenants !== undefined) {
      for (const account of tenants) this.#queue.charge(account, cpuMs / tenants.size);
      this.#chargedTenants.set(
        worker,
        new Set([...(this.#placed.get(worker) ?? [])].map(({ job }) => job.claim.account)),
      );
    }
    const isFull = worker.load >= worker.window;
    if (worker.owner !== undefined && this.#manager.isThrottled(worker.owner))
      worker.window = Math.min(PAST_SHARE_WINDOW, this.#options.callsPerWorker);
    else if (worker.cpuRate >= BUSY_RATE) worker.window = FIRST_WINDOW;
    else if (isFull && this.#manager.hasIdleCpu)
      worker.window = Math.min(worker.window + FIRST_WINDOW, this.#options.callsPerWorker);
    if (worker.cpuRate >= BUSY_RATE) this.#recordLongCalls(worker);
    if (worker.isBackground && !this.#hasUnprovenCalls(worker)) this.#manager.setBackground(worker, false);
    if (isFull) this.#schedule();
  }

  /** The unproven calls that have been in a busy process for long are probably the ones that compute. */
  #recordLongCalls(worker: WorkerProcess): void {
    const since = performance.now() - LONG_CPU_MS;
    for (const { job, pace, placedAt } of this.#placed.get(worker) ?? []) {
      if (pace !== "short" && placedAt < since && job.order.type === "call") this.#paces.recordLong(job.order.tool);
    }
  }

  /** Charges time of the host's event loop that went into an account's values. */
  chargeHostTime(account: string, ms: number): void {
    this.#queue.charge(account, HOST_TIME_FACTOR * ms);
  }

  #ownerStateOf(owner: string): OwnerState {
    for (const [worker, jobs] of this.#placed) {
      if (worker.owner !== owner) continue;
      const [first] = jobs;
      if (first !== undefined) return this.#queue.ownerStateOf(first.job.claim.account);
    }
    return { weight: 1, isBacklogged: false };
  }

  /** See `WorkerManager.endOwner`. */
  endOwner(owner: string, isShared: boolean): number {
    return this.#manager.endOwner(owner, isShared);
  }

  /** Ends every process. Running and queued calls fail as lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#patience);
    for (const { item } of [...this.#queue.entries()]) this.#giveUp(item, { begun: false });
    this.#manager[Symbol.dispose]();
  }
}

/** Key of everything in a job that decides which process it may use. */
function placementKeyOf(
  { owner, claim, memoryMiB, session, kind = "plain", dataBytes = 0, ...job }: Job,
  pace: Pace,
): string {
  const { fresh = false, singleUse = false, exclusive = false } = job;
  return `${session?.id ?? ""} ${claim.parentSlot !== undefined} ${fresh} ${singleUse} ${exclusive} ${memoryMiB} ${kind} ${dataBytes} ${pace} ${owner}`;
}

function addToSet<Key, Value>(map: Map<Key, Set<Value>>, key: Key, value: Value): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, new Set([value]));
  else values.add(value);
}

/** Three processes died before they were usable, so the machine has no room for one now. */
function notStarted(worker: WorkerProcess): ToolError {
  const cause = new Error(worker.diagnostics);
  return new ToolError("OVERLOADED", "A sandbox process could not be started", {
    cause,
    details: { retryAfterMs: 1_000 },
  });
}
