// Runs calls on the executors of a fleet: queues them fairly, chooses an executor for each, and ends each exactly once,
// however the executor ends. What must stay on this machine (the extraction of definitions, sessions) runs on the local
// worker processes.
import { PYODIDE_VERSION } from "../../../bundler/python/python-runtime.ts";
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import type { CallPool } from "../../workers/call-pool.ts";
import type { QuarantinedTool } from "../../workers/health/crash-quarantine.ts";
import type { CallLossReason } from "../../workers/open-call.ts";
import type { Job, SessionPlacement, Ticket, WarmUse } from "../../workers/pool-job.ts";
import type { PythonEnvironment } from "../../workers/python-setup.ts";
import { canUseParentSlot, FairQueue } from "../../workers/scheduling/fair-queue.ts";
import type { SentBundle, WorkerToolProfile } from "../../workers/worker-job.ts";
import { HOST_TIME_FACTOR, type WorkerPool } from "../../workers/worker-pool.ts";
import { CallObjectsFactory } from "../objects/call-objects.ts";
import { ExecutorDirectory, type ExecutorDirectoryOptions } from "./executor-directory.ts";
import { FleetCall, type FleetJob } from "./fleet-call.ts";
import type { DrainOutcome, ExecutorQueue, FleetState } from "./fleet-state.ts";
import { chooseExecutor } from "./placement.ts";
import { type AttemptOwner, RemoteAttempt } from "./remote-attempt.ts";
import type { RemoteExecutor } from "./remote-executor.ts";
import { toRunMessage } from "./run-message.ts";

export interface FleetPoolOptions extends Omit<ExecutorDirectoryOptions, "onChange"> {
  readonly local: WorkerPool;
  /** Most calls of all tenants that may wait. */
  readonly maxQueued: number;
}

/** Attempts of a call whose executor is lost before it has begun. */
const MAX_ATTEMPTS = 3;
/** Share of its remaining time that a call may wait for an executor. The rest is for the OVERLOADED result, which a timeout must not precede. */
const WAIT_SHARE = 0.9;

/** Whether a job can run on an executor. */
const isFleetJob = (job: Job): job is FleetJob =>
  job.order.type === "call" &&
  job.order.prewarm === undefined &&
  job.session === undefined &&
  (job.kind !== "python" || job.python !== undefined);

const noExecutor = ({ pools, python }: FleetCall): string =>
  `No executor of the pool ${pools.join(", ")}${python === undefined ? "" : " with this server's version of Python"}`;
const INSTALL_PYTHON = `Run "npm install pyodide@${PYODIDE_VERSION}" where its executors are installed, or let the tenant use another pool`;

export class FleetPool implements CallPool, AttemptOwner {
  readonly #local: WorkerPool;
  readonly #executors: ExecutorDirectory;
  readonly #queue: FairQueue<FleetCall>;
  readonly #objects = new CallObjectsFactory();
  #isScheduling = false;
  #isClosed = false;

  constructor({ local, maxQueued, ...options }: FleetPoolOptions) {
    this.#local = local;
    this.#queue = new FairQueue(maxQueued, { countsRoom: true });
    this.#executors = new ExecutorDirectory({ ...options, onChange: () => this.#schedule() });
  }

  get quarantined(): readonly QuarantinedTool[] {
    return this.#local.quarantined;
  }

  get pids(): readonly number[] {
    return this.#local.pids;
  }

  get fleet(): FleetState {
    return { executors: this.#executors.list(), lost: this.#executors.lost, queues: this.#queues() };
  }

  async drainExecutor(id: string): Promise<DrainOutcome> {
    return await this.#executors.drain(id);
  }

  #queues(): readonly ExecutorQueue[] {
    const queues = new Map<string, ExecutorQueue>();
    const now = performance.now();
    for (const { item } of this.#queue.entries()) {
      for (const pool of item.pools) {
        const { queued, oldestMs } = queues.get(pool) ?? { queued: 0, oldestMs: 0 };
        queues.set(pool, { pool, queued: queued + 1, oldestMs: Math.max(oldestMs, Math.round(now - item.queuedAt)) });
      }
    }
    return [...queues.values()];
  }

  run(job: Job): Ticket {
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    if (!isFleetJob(job)) return this.#local.run(job);
    const call = new FleetCall(job, () => this.#cancel(call));
    // It never runs on this machine instead: a tenant's pools say where its calls may run.
    if (call.python !== undefined && this.#executors.lacksPython(call.pools))
      throw unavailable(
        "unsupported",
        `No executor of the pool ${call.pools.join(", ")} runs Python. ${INSTALL_PYTHON}`,
      );
    call.entry = this.#queue.add(call, job.claim);
    this.#schedule();
    if (call.state === "queued") this.#wait(call);
    return call;
  }

  #wait(call: FleetCall): void {
    const { entry, job } = call;
    const overload = entry === undefined ? undefined : this.#queue.overloadError(entry);
    if (overload !== undefined) {
      this.#leaveQueue(call, "over");
      throw overload;
    }
    const leftMs = job.leftMs?.() ?? Number.POSITIVE_INFINITY;
    const waitMs = Math.max(1, Math.floor(Math.min(job.queueMs ?? Number.POSITIVE_INFINITY, WAIT_SHARE * leftMs)));
    if (waitMs === Number.POSITIVE_INFINITY) return;
    call.queueTimer = setTimeout(() => {
      const retryAfterMs = this.#queue.retryAfterMs(job.claim.account);
      const why = this.#executors.hasLive(call.pools, call.python)
        ? `All executors were full for ${waitMs} ms`
        : `${noExecutor(call)} has been connected for ${waitMs} ms`;
      const details = { queueMs: waitMs, retryAfterMs };
      const cause = new ToolError("OVERLOADED", `${why}; try again in ${retryAfterMs} ms`, { details });
      this.#giveUp(call, { begun: false, cause }, 0);
    }, waitMs);
  }

  #leaveQueue(call: FleetCall, state: FleetCall["state"]): void {
    clearTimeout(call.queueTimer);
    if (call.entry !== undefined && !call.entry.isRemoved) this.#queue.remove(call.entry);
    call.state = state;
  }

  #cancel(call: FleetCall): void {
    call.isCancelled = true;
    if (call.state === "queued") this.#leaveQueue(call, "over");
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
      const key = `${isNested} ${call.python} ${call.pools.join(" ")}`;
      if (blocked.has(key)) continue;
      const executor = chooseExecutor(
        this.#executors.available(call.pools, call.python, isNested),
        call.job.claim.account,
        isNested,
      );
      if (executor !== undefined) {
        this.#send(call, executor, isNested);
        return true;
      }
      blocked.add(key);
    }
    return false;
  }

  #send(call: FleetCall, executor: RemoteExecutor<RemoteAttempt>, isNested: boolean): void {
    this.#leaveQueue(call, "placed");
    if (call.entry !== undefined) this.#queue.begin(call.entry);
    call.attempts += 1;
    call.placedAt = performance.now();
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

  /** Ends an attempt: what its executor sends from now on is ignored. */
  #end(attempt: RemoteAttempt): void {
    attempt.isOver = true;
    attempt.executor.remove(attempt, attempt.isNested);
    const { call } = attempt;
    if (call.entry !== undefined) this.#queue.end(call.entry, performance.now() - call.placedAt);
  }

  #queueAgain(call: FleetCall): void {
    call.state = "queued";
    call.attempt = undefined;
    call.entry = this.#queue.putBack(call, call.job.claim);
    // A call that has waited long enough for a free slot does not wait again without a limit.
    try {
      this.#schedule();
      if (call.state === "queued") this.#wait(call);
    } catch (thrown) {
      this.#giveUp(call, { begun: false, cause: thrown as ToolError }, 0);
    }
  }

  onRejected(attempt: RemoteAttempt, reason: "full" | "draining" | "no-bundle" | "failed"): void {
    const { call, executor } = attempt;
    this.#end(attempt);
    if (reason !== "no-bundle") executor.pause();
    // A full executor has not tried to run the call.
    if (reason === "full" || reason === "draining") call.attempts -= 1;
    this.#retry(call, { begun: false }, 0);
  }

  onEnded(attempt: RemoteAttempt, cpuMs: number): void {
    this.#end(attempt);
    attempt.call.state = "over";
    this.#queue.charge(attempt.call.job.claim.account, cpuMs);
    setImmediate(() => this.#schedule());
  }

  onLost(attempt: RemoteAttempt, loss: CallLossReason, peakBytes: number): void {
    this.#end(attempt);
    // The executor may be alive, and must not run the call any longer.
    attempt.executor.send({ type: "cancel", token: attempt.token });
    this.#retry(attempt.call, loss, peakBytes);
    setImmediate(() => this.#schedule());
  }

  /** Runs a call again elsewhere if nothing of it can have had an effect, or if its author declared it idempotent. */
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
    this.#local.endSession(placement);
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
    for (const { item } of [...this.#queue.entries()]) this.#giveUp(item, { begun: false }, 0);
    await Promise.all([this.#executors[Symbol.asyncDispose](), this.#local[Symbol.asyncDispose]()]);
  }
}
