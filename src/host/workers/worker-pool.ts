// Assigns queued calls to worker processes and handles calls whose process dies. Every job that is accepted ends
// exactly once.
import { availableParallelism } from "node:os";
import { ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { EndedMessage } from "../../sandbox/protocol/worker-messages.ts";
import { LinkedList } from "../util/linked-list.ts";
import type { CallPool } from "./call-pool.ts";
import { CrashQuarantine, type QuarantinedTool } from "./health/crash-quarantine.ts";
import { type Job, type JobPool, PlacedJob, type SessionPlacement, type Ticket, type WarmUse } from "./pool-job.ts";
import type { CallLossReason } from "./process/call-events.ts";
import type { WorkerProcess } from "./process/worker-process.ts";
import { DeadlockWatch } from "./scheduling/deadlock-watch.ts";
import { canUseParentSlot, type Entry, FairQueue } from "./scheduling/fair-queue.ts";
import { JobPlacement } from "./scheduling/job-placement.ts";
import { prewarm } from "./scheduling/prewarm.ts";
import type { OwnerState } from "./scheduling/priority.ts";
import { BUSY_RATE } from "./scheduling/process-priorities.ts";
import { PACE_CPU_MS, ToolPaces } from "./scheduling/tool-pace.ts";
import type { PythonSources } from "./spawn/python-setup.ts";
import { describeWorker, type WorkerInfo } from "./worker-info.ts";
import type { SentBundle, WorkerSources } from "./worker-job.ts";
import { WorkerManager, type WorkerManagerOptions } from "./worker-manager.ts";

export interface WorkerPoolOptions extends WorkerManagerOptions {
  /** Maximum number of calls that run in one process at once. */
  readonly callsPerWorker: number;
  /**
   * Further nested calls that may run in one process, while their callers wait for them.
   * @default 0
   */
  readonly nestedPerWorker?: number;
  /** Maximum number of calls of all tenants that may wait. */
  readonly maxQueued: number;
}

/** Attempts of a job whose process dies before it has begun. Three deaths in a row are not a coincidence. */
const MAX_ATTEMPTS = 3;
const MAX_IDLE_KEYS = 64;
/** CPU time in ms that creating an isolate may take on a busy machine. It does not count as the tool's. */
const ISOLATE_CPU_MS = 10;
/**
 * Weight of event loop time in CPU time. All calls share one event loop, so its time counts for every core, and the
 * garbage made in it must be collected. The factor 4 is a choice: with 1, 2 and 5 a flood of outputs slowed other
 * tenants about equally, within the noise.
 */
export const HOST_TIME_FACTOR: number = 4 * availableParallelism();

export class WorkerPool implements CallPool, JobPool {
  readonly #manager: WorkerManager;
  readonly #queue: FairQueue<PlacedJob>;
  readonly #quarantine = new CrashQuarantine();
  /** Queued jobs for each placement key. */
  readonly #queuedByKey = new Map<string, number>();
  readonly #placed = new Map<WorkerProcess, LinkedList<PlacedJob>>();
  /** Tenants whose calls have run in a process since its CPU time was last read. */
  readonly #chargedTenants = new Map<WorkerProcess, Set<string>>();
  readonly #sessions = new Map<WorkerProcess, Set<SessionPlacement>>();
  readonly #paces = new ToolPaces();
  readonly #placement: JobPlacement;
  readonly #deadlocks: DeadlockWatch;
  #scheduling = false;
  #closed = false;

  constructor(sources: WorkerSources, options: WorkerPoolOptions) {
    this.#queue = new FairQueue(options.maxQueued, { countsRoom: true });
    this.#manager = new WorkerManager(sources, options, {
      onChange: (worker) => this.#onChange(worker),
      onRoom: () => this.#schedule(),
      onCpu: (worker, cpuMs) => this.#onCpu(worker, cpuMs),
      ownerStateOf: (owner) => this.#ownerStateOf(owner),
    });
    const { callsPerWorker, nestedPerWorker = 0 } = options;
    this.#placement = new JobPlacement(
      { callsPerWorker, nestedPerWorker },
      {
        manager: this.#manager,
        quarantine: this.#quarantine,
        placed: this.#placed,
        onWaitEnd: () => this.#schedule(),
      },
    );
    this.#deadlocks = new DeadlockWatch({
      mayBeStuck: () => this.#mayBeStuck(),
      isStuck: () => this.#isStuck(),
      rejectOne: () => this.#rejectYoungest(),
    });
  }

  /** Tools that may have crashed a process. */
  get quarantined(): readonly QuarantinedTool[] {
    return this.#quarantine.list();
  }

  /** Process ids of all workers, for tests and the operator. */
  get pids(): readonly number[] {
    return this.#manager.pids;
  }

  get workers(): readonly WorkerInfo[] {
    return this.#manager.all.flatMap((worker) => {
      const jobs = this.#placed.get(worker)?.toArray() ?? [];
      const callers = jobs.flatMap(({ job: { order } }) => (order.type === "call" ? [order.tenantId] : []));
      return describeWorker(worker, callers) ?? [];
    });
  }

  /** Starts the first process; see `WorkerManager.start`. */
  async start(): Promise<void> {
    await this.#manager.start();
  }

  /** See `WorkerManager.openPython`. */
  async openPython(python: PythonSources): Promise<void> {
    if (!this.#closed) await this.#manager.openPython(python);
  }

  /** See `WorkerManager.closePython`. */
  closePython(python: PythonSources): void {
    this.#manager.closePython(python);
  }

  /**
   * Queues or starts a job.
   * @throws {ToolError} TOOL_UNAVAILABLE when the pool is closed; OVERLOADED, with `retryAfterMs`, when the queue is
   * full
   */
  run(job: Job): Ticket {
    if (this.#closed) throw unavailable("closed", "Glovebox is closed");
    const pace = job.order.type === "call" ? this.#paces.paceOf(job.order.tool) : "unknown";
    const placed = new PlacedJob(job, pace, this);
    const entry = this.#queue.add(placed, job.claim);
    placed.entry = entry;
    this.#countKey(placed.placementKey, 1);
    this.#schedule();
    if (placed.state === "queued") this.#enqueue(placed, entry);
    return placed;
  }

  onPause(): void {
    this.#schedule();
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
   * concurrency slot and no place in the queue, because an update must not delay calls. Never rejects.
   */
  async prewarm(
    { worker, profile: earlier, tenantId }: WarmUse,
    profile: WorkerToolProfile,
    bundle: SentBundle,
  ): Promise<void> {
    if (this.#closed || !this.#manager.open.includes(worker)) return;
    await prewarm(worker, { profile, bundle, tenantId, like: worker.toolIdOf(earlier) }, () => this.#manager.watch());
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

  cancel(placed: PlacedJob): void {
    // No caller waits for it. If the cancellation costs the process, the call is not run again.
    placed.attempts = MAX_ATTEMPTS;
    placed.isCancelled = true;
    if (placed.state === "placed") placed.worker?.cancel(placed.seq);
    if (placed.state === "queued") this.#giveUp(placed, { begun: false });
  }

  #leaveQueue(placed: PlacedJob, state: PlacedJob["state"]): void {
    clearTimeout(placed.queueTimer);
    if (placed.entry !== undefined && !placed.entry.isRemoved) {
      this.#queue.remove(placed.entry);
      this.#countKey(placed.placementKey, -1);
    }
    placed.state = state;
  }

  /** Keeps some keys with a count of 0, because adding and deleting the same one all the time is slow. */
  #countKey(placementKey: string, change: 1 | -1): void {
    const count = (this.#queuedByKey.get(placementKey) ?? 0) + change;
    if (count === 0 && this.#queuedByKey.size > MAX_IDLE_KEYS) this.#queuedByKey.delete(placementKey);
    else this.#queuedByKey.set(placementKey, count);
  }

  #jobsOf(worker: WorkerProcess): LinkedList<PlacedJob> {
    const known = this.#placed.get(worker);
    if (known !== undefined) return known;
    const jobs = new LinkedList<PlacedJob>();
    this.#placed.set(worker, jobs);
    return jobs;
  }

  /** Ending a process to make room re-enters this method, so only the outer call runs the loop. */
  #schedule(): void {
    if (this.#scheduling || this.#closed) return;
    this.#scheduling = true;
    try {
      // Each placement can change which job is next.
      while (this.#placeNext());
      this.#manager.refillSoon();
    } finally {
      this.#scheduling = false;
    }
    this.#deadlocks.look();
  }

  #mayBeStuck(): boolean {
    if (this.#closed || this.#queue.queued === 0) return false;
    const workers = this.#manager.all;
    return workers.length >= this.#manager.max && workers.every(({ isNesting }) => isNesting);
  }

  /** A call that waits for anything else, such as a tool of an MCP server, can end although no process is free. */
  #isStuck(): boolean {
    const awaited = this.#manager.all.reduce((sum, worker) => sum + worker.awaitedCalls, 0);
    let inPool = 0;
    for (const { item } of this.#queue.entries()) if (item.job.claim.parentSlot !== undefined) inPool += 1;
    for (const jobs of this.#placed.values())
      for (const { job } of jobs.toArray()) if (job.claim.parentSlot !== undefined) inPool += 1;
    return awaited === inPool;
  }

  /** The latest outermost call loses, so that the earliest one always goes on. */
  #rejectYoungest(): void {
    let youngest: PlacedJob | undefined;
    for (const { item } of this.#queue.entries()) {
      const { parentSlot, rootNumber = 0 } = item.job.claim;
      if (parentSlot !== undefined && rootNumber >= (youngest?.job.claim.rootNumber ?? 0)) youngest = item;
    }
    if (youngest === undefined) return;
    const { max } = this.#manager;
    const retryAfterMs = this.#queue.retryAfterMs(youngest.job.claim.account);
    const message = `Each of the ${max} worker processes (workers.max) has calls that wait for another call, and this one needs a process too; try again in ${retryAfterMs} ms`;
    const cause = new ToolError("OVERLOADED", message, { details: { processes: max, retryAfterMs } });
    this.#giveUp(youngest, { begun: false, cause });
  }

  #placeNext(): boolean {
    let untried = this.#queue.queued;
    if (untried === 0) return false;
    let blockedKeys: Set<string> | undefined;
    for (const entry of this.#queue.candidates()) {
      const { item } = entry;
      if (blockedKeys?.has(item.placementKey)) continue;
      const usesParentSlot = canUseParentSlot(entry);
      const waiting = this.#queuedByKey.get(item.placementKey) ?? 0;
      const worker = this.#placement.workerFor(item, usesParentSlot, waiting);
      if (worker !== undefined) {
        this.#place(item, worker);
        return true;
      }
      // Other jobs with the same key may still fit: this tool may be quarantined, or this nested call may lack its
      // parent's slot.
      const { toolKey, parentSlot } = item.job.claim;
      if (this.#quarantine.has(toolKey) || (parentSlot !== undefined && !usesParentSlot)) continue;
      blockedKeys ??= new Set();
      blockedKeys.add(item.placementKey);
      untried -= waiting;
      // Jobs with the same key are tried once, even if a thousand tenants wait.
      if (untried <= 0) return false;
    }
    return false;
  }

  /** Disposes the session's isolate. Calling it twice is a no-op. */
  endSession(placement: SessionPlacement): void {
    const { worker } = placement;
    if (worker === undefined) return;
    this.#sessions.get(worker)?.delete(placement);
    worker.endSession(placement.id);
  }

  #place(placed: PlacedJob, worker: WorkerProcess): void {
    const { job, entry } = placed;
    this.#leaveQueue(placed, "placed");
    this.#deadlocks.recordChange();
    if (entry !== undefined) this.#queue.begin(entry);
    placed.worker = worker;
    placed.attempts += 1;
    placed.placedAt = performance.now();
    placed.startedAt = undefined;
    placed.slot = this.#jobsOf(worker).add(placed);
    if (placed.pace !== "short") worker.unproven += 1;
    if (job.session !== undefined && job.session.worker === undefined) {
      job.session.worker = worker;
      // An exclusive session's process must not serve other calls later.
      if (job.exclusive) worker.singleUse = true;
      addToSet(this.#sessions, worker, job.session);
    }
    addToSet(this.#chargedTenants, worker, job.claim.account);
    try {
      placed.seq = worker.start(job, placed, this.#placement.runsOnMainThread(placed, worker));
      this.#manager.watch();
    } catch (thrown) {
      // Part of the call may have been sent. The process is unusable, and the call has not begun.
      this.#giveUp(placed, { begun: false, cause: toToolError(thrown) });
      worker.kill();
      this.#placed.delete(worker);
      this.#chargedTenants.delete(worker);
    }
  }

  onEnded(placed: PlacedJob, message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void {
    const { worker, job } = placed;
    this.#finish(placed);
    if (worker !== undefined) {
      if (message.outcome === "output" || message.outcome === "streamed") {
        this.#quarantine.recordSuccess(job.claim.toolKey);
        this.#manager.priorities.recordSuccess(worker, message.usage.cpuMs);
      }
      this.#recordPace(placed, worker, message);
    }
    job.listener.onEnded(message, parts, peakBytes);
  }

  onStuck({ job }: PlacedJob): void {
    this.#quarantine.add(job.claim.toolKey);
  }

  /** The CPU time is reported by the worker, which is not trusted; it only decides about its own tenant's calls. */
  #recordPace({ job }: PlacedJob, worker: WorkerProcess, { outcome, usage }: EndedMessage): void {
    const { order } = job;
    if (order.type !== "call" || order.prewarm !== undefined) return;
    // The division of the CPU time between calls of one process is an estimate, and the others may have computed.
    const isEstimate = worker.unproven > 0;
    // Whether the call had to create its isolate depends on others.
    const computingMs = Math.max(Math.min(usage.cpuMs, usage.executeMs), usage.cpuMs - ISOLATE_CPU_MS);
    if (outcome === "cpu") this.#paces.recordLong(order.tool);
    else if (outcome !== "cancelled" || computingMs >= PACE_CPU_MS[worker.kind].long)
      this.#paces.record(order.tool, computingMs, isEstimate, PACE_CPU_MS[worker.kind]);
  }

  /** Frees the job's slot in the queue. */
  #finish(placed: PlacedJob): void {
    const { entry, worker } = placed;
    if (placed.state !== "placed" || entry === undefined) return;
    placed.state = "over";
    this.#deadlocks.recordChange();
    this.#queue.end(entry, performance.now() - placed.placedAt);
    if (worker === undefined) return;
    if (placed.slot !== undefined) this.#placed.get(worker)?.delete(placed.slot);
    if (placed.pace !== "short") worker.unproven -= 1;
  }

  #giveUp(placed: PlacedJob, loss: CallLossReason, peakBytes = 0): void {
    if (placed.state === "over") return;
    if (placed.state === "queued") this.#leaveQueue(placed, "over");
    else this.#finish(placed);
    placed.job.listener.onLost(loss, peakBytes);
  }

  /** Runs a call again if it had not begun, or if its author declared it idempotent. Otherwise the call fails. */
  onLost(placed: PlacedJob, loss: CallLossReason, peakBytes: number): void {
    const { job, worker } = placed;
    if (placed.state === "over" || worker === undefined) return;
    // The other calls of the process did nothing that would make them long.
    const isUnstoppable = placed.isCancelled && (worker.endReason === "interrupted" || worker.endReason === "stuck");
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
      job.listener.onPutBack?.();
      return;
    }
    this.#giveUp(placed, worker.isReady ? loss : { ...loss, cause: notStarted(loss), isNotStarted: true }, peakBytes);
  }

  #onChange(worker: WorkerProcess): void {
    if (worker.isDead) {
      this.#placed.delete(worker);
      this.#chargedTenants.delete(worker);
      this.#loseSessions(worker);
    } else if (worker.callCount === 0) {
      worker.isExclusive = false;
      this.#manager.priorities.setBackground(worker, false);
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

  /** Charges CPU time to the tenants that used the process, in equal parts, and adapts its window. */
  #onCpu(worker: WorkerProcess, cpuMs: number): void {
    const tenants = this.#chargedTenants.get(worker);
    if (tenants !== undefined) {
      for (const account of tenants) this.#queue.charge(account, cpuMs / tenants.size);
      this.#chargedTenants.set(
        worker,
        new Set(
          this.#placed
            .get(worker)
            ?.toArray()
            .map(({ job }) => job.claim.account),
        ),
      );
    }
    const isFull = worker.callCount >= worker.window;
    this.#placement.adaptWindow(worker);
    if (worker.cpuRate >= BUSY_RATE) this.#recordLongCalls(worker);
    if (worker.isBackground && !this.#placement.hasUnprovenCalls(worker))
      this.#manager.priorities.setBackground(worker, false);
    if (isFull) this.#schedule();
  }

  /** The unproven calls that have been in a busy process for long are probably the ones that compute. */
  #recordLongCalls(worker: WorkerProcess): void {
    const since = performance.now() - PACE_CPU_MS[worker.kind].long;
    for (const { job, pace, placedAt, startedAt } of this.#placed.get(worker)?.toArray() ?? []) {
      // A Python process computes for a second to load the interpreter, which is not the tool's work.
      const computesSince = worker.kind === "python" ? startedAt : placedAt;
      const isLong = computesSince !== undefined && computesSince < since;
      if (pace !== "short" && isLong && job.order.type === "call") this.#paces.recordLong(job.order.tool);
    }
  }

  /** Charges time of the host's event loop that went into an account's values. */
  chargeHostTime(account: string, ms: number): void {
    this.#queue.charge(account, HOST_TIME_FACTOR * ms);
  }

  #ownerStateOf(owner: string): OwnerState {
    for (const [worker, jobs] of this.#placed) {
      if (worker.owner !== owner) continue;
      const [first] = jobs.toArray();
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
    this.#placement[Symbol.dispose]();
    this.#deadlocks[Symbol.dispose]();
    for (const { item } of [...this.#queue.entries()]) this.#giveUp(item, { begun: false });
    this.#manager[Symbol.dispose]();
  }
}

function addToSet<Key, Value>(map: Map<Key, Set<Value>>, key: Key, value: Value): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, new Set([value]));
  else values.add(value);
}

/** Three processes died before they were usable, so the machine has no room for one now. */
function notStarted({ event }: CallLossReason): ToolError {
  return new ToolError("OVERLOADED", "A sandbox process could not be started", {
    cause: event,
    details: { retryAfterMs: 1_000 },
  });
}
