// Runs calls on the executors of a fleet: queues them fairly, chooses an executor for each, and ends each exactly once,
// however the executor ends. Extractions of definitions run on the local worker processes.
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../../sandbox/protocol/host-messages.ts";
import type { CallPool } from "../../workers/call-pool.ts";
import type { QuarantinedTool } from "../../workers/health/crash-quarantine.ts";
import type { Job, SessionPlacement, Ticket, WarmUse } from "../../workers/pool-job.ts";
import type { CallLossReason } from "../../workers/process/call-events.ts";
import { canUseParentSlot, FairQueue } from "../../workers/scheduling/fair-queue.ts";
import type { PythonEnvironment } from "../../workers/spawn/python-setup.ts";
import type { WorkerInfo } from "../../workers/worker-info.ts";
import type { SentBundle } from "../../workers/worker-job.ts";
import { HOST_TIME_FACTOR, type WorkerPool } from "../../workers/worker-pool.ts";
import type { FleetConnection } from "../nats-connection.ts";
import { CallObjectsFactory } from "../objects/call-objects.ts";
import type { RejectionReason } from "../protocol/executor-messages.ts";
import { ExecutorDirectory, type ExecutorDirectoryOptions } from "./executor-directory.ts";
import { FleetCall, type FleetJob } from "./fleet-call.ts";
import { lackingError, unreachableError, waitError } from "./fleet-errors.ts";
import { FleetSessions, type SessionOwner } from "./fleet-sessions.ts";
import { type DrainOutcome, type FleetState, toQueues } from "./fleet-state.ts";
import { chooseExecutor } from "./placement.ts";
import { type AttemptOwner, RemoteAttempt } from "./remote-attempt.ts";
import type { RemoteExecutor } from "./remote-executor.ts";
import { toRunMessage } from "./run-message.ts";

export interface FleetPoolOptions extends Omit<ExecutorDirectoryOptions, "onChange"> {
  readonly local: WorkerPool;
  /** Maximum number of calls of all tenants that may wait. */
  readonly maxQueued: number;
}

/** Attempts of a call whose executor is lost before it has begun. */
const MAX_ATTEMPTS = 3;
/** Share of its remaining time that a call may wait for an executor. The rest is for the OVERLOADED result, which a timeout must not precede. */
const WAIT_SHARE = 0.9;

/**
 * Time in ms after which a lost connection to NATS counts as an outage: calls fail at once instead of waiting. Connecting to another server of
 * a cluster takes less.
 */
const OUTAGE_MS = 2_000;

/** Whether a job can run on an executor. */
const isFleetJob = (job: Job): job is FleetJob =>
  job.order.type === "call" && job.order.prewarm === undefined && (job.kind !== "python" || job.python !== undefined);

export class FleetPool implements CallPool, AttemptOwner, SessionOwner<FleetCall> {
  readonly #local: WorkerPool;
  readonly #executors: ExecutorDirectory;
  readonly #queue: FairQueue<FleetCall>;
  readonly #objects = new CallObjectsFactory();
  readonly #sessions = new FleetSessions<FleetCall>(this);
  readonly #connection: FleetConnection;
  #outageTimer: NodeJS.Timeout | undefined;
  #isScheduling = false;
  #isClosed = false;

  constructor({ local, maxQueued, ...options }: FleetPoolOptions) {
    this.#local = local;
    this.#connection = options.connection;
    this.#queue = new FairQueue(maxQueued, { countsRoom: true });
    this.#executors = new ExecutorDirectory({ ...options, onChange: () => this.#schedule() });
  }

  get quarantined(): readonly QuarantinedTool[] {
    return this.#local.quarantined;
  }

  get pids(): readonly number[] {
    return this.#local.pids;
  }

  get workers(): readonly WorkerInfo[] {
    return this.#local.workers;
  }

  get fleet(): FleetState {
    const queues = toQueues(this.#queue.entries());
    return { executors: this.#executors.list(), lost: this.#executors.lost, queues, isReachable: this.#isReachable };
  }

  get #isReachable(): boolean {
    return this.#connection.outageMs < OUTAGE_MS;
  }

  /** The connection to NATS is lost: if it is not back soon, the calls that wait fail. */
  onDisconnected(): void {
    clearTimeout(this.#outageTimer);
    // Timers can be early by a fraction of a millisecond.
    this.#outageTimer = setTimeout(() => {
      if (this.#isReachable) return;
      for (const { item } of [...this.#queue.entries()])
        this.#giveUp(item, { begun: false, cause: unreachableError() }, 0);
    }, OUTAGE_MS + 10).unref();
  }

  async drainExecutor(id: string): Promise<DrainOutcome> {
    return await this.#executors.drain(id);
  }

  run(job: Job): Ticket {
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    if (!isFleetJob(job)) return this.#local.run(job);
    const call = new FleetCall(job, () => this.#cancel(call));
    // It never runs on this machine instead: a tenant's pools say where its calls may run.
    const lacking = this.#executors.lacking(call.pools, call.needs);
    if (lacking !== undefined) throw lackingError(call.pools, lacking);
    this.#sessions.enter(call);
    call.entry = this.#queue.add(call, job.claim);
    this.#schedule();
    try {
      if (call.state === "queued") this.#wait(call);
    } catch (thrown) {
      this.#leaveQueue(call, "over");
      throw thrown;
    }
    return call;
  }

  /** @throws {ToolError} OVERLOADED for a call that may not wait, and that the caller removes from the queue */
  #wait(call: FleetCall): void {
    const { entry, job } = call;
    const full = entry === undefined ? undefined : this.#queue.overloadError(entry);
    const overload = this.#isReachable ? full : unreachableError();
    if (overload !== undefined) throw overload;
    const leftMs = job.leftMs?.() ?? Number.POSITIVE_INFINITY;
    const waitMs = Math.max(1, Math.floor(Math.min(job.queueMs ?? Number.POSITIVE_INFINITY, WAIT_SHARE * leftMs)));
    if (waitMs === Number.POSITIVE_INFINITY) return;
    call.queueTimer = setTimeout(() => {
      const retryAfterMs = this.#queue.retryAfterMs(job.claim.account);
      const hasLive = this.#executors.hasLive(call.pools, call.needs);
      this.#giveUp(call, { begun: false, cause: waitError(call, { hasLive, waitMs, retryAfterMs }) }, 0);
    }, waitMs);
  }

  #leaveQueue(call: FleetCall, state: FleetCall["state"]): void {
    clearTimeout(call.queueTimer);
    if (call.entry !== undefined && !call.entry.isRemoved) this.#queue.remove(call.entry);
    call.state = state;
  }

  #cancel(call: FleetCall): void {
    call.isCancelled = true;
    if (call.state === "queued") this.#giveUp(call, { begun: false }, 0);
    else if (call.state === "placed") call.attempt?.cancel();
  }

  /** Sending a call re-enters this method when it fails at once, so only the outer call runs the loop. */
  #schedule(): void {
    if (this.#isScheduling || this.#isClosed) return;
    this.#isScheduling = true;
    try {
      while (this.#placeNext());
    } finally {
      this.#isScheduling = false;
    }
  }

  #placeNext(): boolean {
    // Calls of the same pools are tried once, even if a thousand tenants wait.
    const blocked = new Set<string>();
    for (const entry of this.#queue.candidates()) {
      const call = entry.item;
      const isNested = canUseParentSlot(entry);
      const { session, pools, needs, failedOn } = call;
      const key = `${isNested} ${needs.python} ${session?.executor.id ?? needs.session} ${pools.join(" ")} ${[...failedOn].join(" ")}`;
      if (blocked.has(key)) continue;
      if (session !== undefined && !pools.includes(session.executor.announcement.pool)) {
        session.lose("pool-denied");
        return true;
      }
      const executor = chooseExecutor(this.#candidatesFor(call, isNested), call.job.claim.account, isNested);
      if (executor !== undefined) {
        this.#send(call, executor, isNested);
        return true;
      }
      blocked.add(key);
    }
    return false;
  }

  /** See `ExecutorDirectory.available`. */
  #candidatesFor(call: FleetCall, isNested: boolean): readonly RemoteExecutor<RemoteAttempt>[] {
    const { needs, session } = call;
    const all = this.#executors.available(call, isNested);
    return session === undefined && needs.session === true
      ? all.filter(({ hasRoomForSession }) => hasRoomForSession)
      : all;
  }

  #send(call: FleetCall, executor: RemoteExecutor<RemoteAttempt>, isNested: boolean): void {
    this.#leaveQueue(call, "placed");
    if (call.entry !== undefined) this.#queue.begin(call.entry);
    call.attempts += 1;
    call.placedAt = performance.now();
    this.#sessions.bind(call, executor);
    const attempt = new RemoteAttempt({ call, executor, isNested }, this);
    call.attempt = attempt;
    executor.add(attempt, isNested);
    const objects = this.#objects.of(call.job);
    for (const { ref, read } of objects.offered) void attempt.offers.add(ref, read);
    executor.countBundle(objects.sha256);
    const { message, parts } = toRunMessage(attempt, this.#executors.control, objects);
    executor.send(message, parts);
    attempt.sent();
  }

  #end(attempt: RemoteAttempt): void {
    attempt.end();
    attempt.executor.remove(attempt, attempt.isNested);
    const { call } = attempt;
    if (call.entry !== undefined) this.#queue.end(call.entry, performance.now() - call.placedAt);
  }

  #queueAgain(call: FleetCall): void {
    call.state = "queued";
    call.attempt = undefined;
    call.entry = this.#queue.putBack(call, call.job.claim);
    call.job.listener.onPutBack?.();
    // A call that has waited long enough for a free slot does not wait again without a limit.
    try {
      this.#schedule();
      if (call.state === "queued") this.#wait(call);
    } catch (thrown) {
      this.#giveUp(call, { begun: false, cause: thrown as ToolError }, 0);
    }
  }

  onRejected(attempt: RemoteAttempt, reason: RejectionReason): void {
    const { call, executor } = attempt;
    const { session } = call;
    this.#end(attempt);
    if (call.isCancelled) {
      // Its session may have gone on with the next call.
      this.#sessions.leave(call);
      this.#giveUp(call, { begun: false }, 0);
      return;
    }
    if (session !== undefined && (reason === "no-session" || (reason === "draining" && session.isKept))) {
      const cause = session.lose(reason === "draining" ? "executor-stops" : undefined);
      this.#giveUp(call, { begun: false, ...(cause === undefined ? {} : { cause }) }, 0);
      return;
    }
    this.#sessions.leave(call);
    if (reason !== "no-bundle") executor.pause();
    if (reason === "failed" || reason === "no-bundle") call.failedOn.add(executor.id);
    // A full executor has not tried to run the call.
    if (reason === "full" || reason === "draining") call.attempts -= 1;
    this.#retry(call, { begun: false }, 0);
  }

  onEnded(attempt: RemoteAttempt, cpuMs: number, isKept: boolean): void {
    this.#end(attempt);
    attempt.call.state = "over";
    attempt.call.session?.callEnded(attempt.call, isKept);
    this.#queue.charge(attempt.call.job.claim.account, cpuMs);
    setImmediate(() => this.#schedule());
  }

  onLost(attempt: RemoteAttempt, loss: CallLossReason, peakBytes: number): void {
    this.#end(attempt);
    // The executor may be alive, and must not run the call any longer.
    attempt.executor.send({ type: "cancel", token: attempt.token });
    const { session } = attempt.call;
    if (loss.isNotStarted === true) attempt.executor.recordFailure();
    if (!loss.begun) attempt.call.failedOn.add(attempt.executor.id);
    if (session !== undefined && (loss.begun || session.isKept)) {
      // It may have changed the state of the session, even if nothing of it has arrived.
      this.#giveUp(attempt.call, loss, peakBytes);
      session.callEnded(attempt.call, false);
    } else {
      this.#sessions.leave(attempt.call);
      this.#retry(attempt.call, loss, peakBytes);
    }
    setImmediate(() => this.#schedule());
  }

  /** Runs a call again elsewhere if its start was not reported, so that it has had no effect, or if its author declared it idempotent. */
  #retry(call: FleetCall, loss: CallLossReason, peakBytes: number): void {
    const mayRunAgain = (!loss.begun || call.job.idempotent === true) && loss.outOfMemory !== true;
    if (mayRunAgain && call.attempts < MAX_ATTEMPTS && !call.isCancelled && !this.#isClosed) {
      this.#queueAgain(call);
      return;
    }
    const cause =
      loss.begun || loss.cause !== undefined
        ? loss.cause
        : new ToolError("OVERLOADED", "No executor could begin the call; try again in 1000 ms", {
            details: { retryAfterMs: 1_000 },
          });
    this.#giveUp(call, cause === undefined ? loss : { ...loss, cause }, peakBytes);
  }

  #giveUp(call: FleetCall, loss: CallLossReason, peakBytes: number): void {
    if (call.state === "over") return;
    this.#leaveQueue(call, "over");
    call.job.listener.onLost(loss, peakBytes);
  }

  giveUpQueued(call: FleetCall, cause: ToolError | undefined): void {
    this.#giveUp(call, { begun: false, ...(cause === undefined ? {} : { cause }) }, 0);
  }

  usesOf(profiles: readonly WorkerToolProfile[]): readonly WarmUse[] {
    return this.#local.usesOf(profiles);
  }

  async prewarm(use: WarmUse, profile: WorkerToolProfile, bundle: SentBundle): Promise<void> {
    await this.#local.prewarm(use, profile, bundle);
  }

  release(profiles: readonly WorkerToolProfile[], bundle: SentBundle | undefined): void {
    this.#local.release(profiles, bundle);
  }

  preparePython({ key }: PythonEnvironment): void {
    this.#executors.preparePython(key);
  }

  endSession(placement: SessionPlacement): void {
    this.#sessions.end(placement);
  }

  chargeHostTime(account: string, ms: number): void {
    this.#queue.charge(account, HOST_TIME_FACTOR * ms);
    this.#local.chargeHostTime(account, ms);
  }

  endOwner(owner: string, isShared: boolean): number {
    this.#executors.endOwner(owner, isShared);
    return this.#local.endOwner(owner, isShared);
  }

  deleteTenant(tenantId: string): void {
    this.#executors.deleteTenant(tenantId);
  }

  /** Ends every call as lost, and the local worker processes. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#outageTimer);
    for (const { item } of [...this.#queue.entries()]) this.#giveUp(item, { begun: false }, 0);
    await Promise.all([this.#executors[Symbol.asyncDispose](), this.#local[Symbol.asyncDispose]()]);
  }
}
