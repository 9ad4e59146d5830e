// Which call goes to which process, when, and what is done when one dies. Every job that entered is ended exactly once.
import { availableParallelism } from "node:os";
import { ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { CrashQuarantine } from "./health/crash-quarantine.ts";
import type { CallListener, CallLossReason } from "./open-call.ts";
import type { PythonSources } from "./python-setup.ts";
import { type Claim, canUseParentSlot, type Entry, FairQueue } from "./scheduling/fair-queue.ts";
import type { OwnerState } from "./scheduling/priority.ts";
import { type FleetOptions, type ProcessNeed, WorkerManager } from "./worker-manager.ts";
import type {
  EndReason,
  SentBundle,
  WorkerJob,
  WorkerProcess,
  WorkerSources,
  WorkerToolProfile,
} from "./worker-process.ts";

export interface WorkerPoolOptions extends FleetOptions {
  /** Calls that run in one process at one time. */
  readonly callsPerWorker: number;
  /** And so many more, whose callers wait for them; none unless stated. */
  readonly nestedPerWorker?: number;
  /** Calls of all tenants that may wait. */
  readonly maxQueued: number;
}

/** A call for the pool to run. */
export interface Job extends WorkerJob, ProcessNeed {
  /** No process ever serves two owners, and all those of one are of the kind that its jobs need. */
  readonly owner: string;
  readonly claim: Claim;
  readonly listener: CallListener;
  readonly memoryMiB: number;
  /** It may wait this long for its turn, in ms. */
  readonly queueMs?: number;
  /** It needs a process in which nothing has run yet, and nothing runs beside it. */
  readonly fresh?: boolean;
  /** Its process serves nobody afterwards: it is ended. */
  readonly singleUse?: boolean;
  /** It runs alone in its process. */
  readonly exclusive?: boolean;
  /** It may be run again though it had begun. */
  readonly idempotent?: boolean;
  /** Whose isolate it runs in; `order.session` is its number. */
  readonly session?: SessionSeat | undefined;
}

/** Where the isolate of a conversation is: calls of it go there and nowhere else. One at a time. */
export interface SessionSeat {
  readonly id: number;
  /** Set when its first call was placed. */
  worker: WorkerProcess | undefined;
  /** Its process has ended, and its isolate with it. */
  onLost(reason: EndReason | undefined): void;
}

/** Where a tool is in use: in one process, for one tenant. */
export interface WarmUse {
  readonly worker: WorkerProcess;
  readonly profile: WorkerToolProfile;
  readonly tenantId: string;
  /** Warm isolates that its calls need there. */
  readonly isolates: number;
}

interface PlacedJob {
  readonly job: Job;
  /** Jobs of one kind find the same processes. */
  readonly kind: string;
  attempts: number;
  entry: Entry<PlacedJob> | undefined;
  worker: WorkerProcess | undefined;
  seq: number;
  placedAt: number;
  queueTimer: NodeJS.Timeout | undefined;
  state: "queued" | "placed" | "over";
}

/** A job's handle. */
export interface Ticket {
  /** Ends the call: out of the queue at once, or out of its process. The listener still hears how it ended, if it had begun. */
  cancel(): void;
  /** So many more of its chunks have been taken. */
  credit(chunks: number): void;
  /** It waits for a person or a model, or does so no more; as often one as the other. Meanwhile others may have its place. */
  rest(isResting: boolean): void;
  /** Whether its listener hears of `onIdle`. */
  watchIdle(isWatched: boolean): void;
}

/** A job whose process dies before it has begun is tried this often in all: three deaths are not bad luck. */
const MAX_ATTEMPTS = 3;
/** Calls that a process is given at one time until it is seen that they mostly wait; and then so many more, again and again. */
const FIRST_WINDOW = 4;
/** A tenant past its share of the machine: a second call, so that another of its tools is not kept waiting, and no more. */
const PAST_SHARE_WINDOW = 2;
/** Cores that a process must use to count as busy. */
const BUSY_RATE = 0.5;

/**
 * There is one event loop for all calls, so its time counts as time of every core, and what is made in it has to be collected. How much
 * more that is worth is a choice: at 1, 2 and 5 a flood of outputs cost its neighbours about as much, within the noise.
 */
const HOST_TIME_FACTOR = 4 * availableParallelism();

export class WorkerPool implements AsyncDisposable {
  readonly #options: WorkerPoolOptions;
  readonly #fleet: WorkerManager;
  readonly #queue: FairQueue<PlacedJob>;
  readonly #suspects = new CrashQuarantine();
  /** Of what waits. */
  readonly #queuedOfKind = new Map<string, number>();
  readonly #placed = new Map<WorkerProcess, Set<PlacedJob>>();
  /** Accounts whose calls have run in a process since its CPU time was last read. */
  readonly #payers = new Map<WorkerProcess, Set<string>>();
  readonly #seats = new Map<WorkerProcess, Set<SessionSeat>>();
  #scheduling = false;
  #closed = false;

  constructor(sources: WorkerSources, options: WorkerPoolOptions) {
    this.#options = options;
    this.#queue = new FairQueue(options.maxQueued, { countsRoom: true });
    this.#fleet = new WorkerManager(sources, options, {
      onChange: (worker) => this.#onChange(worker),
      onRoom: () => this.#schedule(),
      onCpu: (worker, cpuMs) => this.#onCpu(worker, cpuMs),
      standingOf: (owner) => this.#standingOf(owner),
    });
  }

  /** Process ids of all workers, for tests and the operator. */
  get pids(): readonly number[] {
    return this.#fleet.pids;
  }

  /** Starts the first process, as `WorkerManager.start` does. */
  async start(): Promise<void> {
    await this.#fleet.start();
  }

  /** As `WorkerManager.openPython`. */
  async openPython(python: PythonSources): Promise<void> {
    if (!this.#closed) await this.#fleet.openPython(python);
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE when the pool is closed; OVERLOADED, with `retryAfterMs`, when the queue is full */
  run(job: Job): Ticket {
    if (this.#closed) throw unavailable("closed", "Glovebox is closed");
    const placed: PlacedJob = {
      job,
      kind: kindOf(job),
      attempts: 0,
      entry: undefined,
      worker: undefined,
      seq: 0,
      placedAt: 0,
      queueTimer: undefined,
      state: "queued",
    };
    const entry = this.#queue.add(placed, job.claim);
    placed.entry = entry;
    this.#countKind(placed.kind, 1);
    this.#schedule();
    if (placed.state === "queued") this.#makeWait(placed, entry);
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

  /** Where calls with these profiles have run. A process that serves one job, or one call at a time, is left out: it has no room. */
  usesOf(profiles: readonly WorkerToolProfile[]): readonly WarmUse[] {
    const workers = this.#fleet.open.filter(({ singleUse, isExclusive }) => !singleUse && !isExclusive);
    return workers.flatMap((worker) =>
      profiles.flatMap((profile) => worker.usesOf(profile).map((use) => ({ ...use, worker, profile }))),
    );
  }

  /**
   * Makes one isolate of a tool in a process in which an earlier version is in use, for a call to come. It takes no slot of the tenant's and
   * no place in the queue: an update must not make calls wait. Resolves when the isolate is there, or cannot be made. Never rejects.
   */
  async prewarm(
    { worker, profile: earlier, tenantId }: WarmUse,
    profile: WorkerToolProfile,
    bundle: SentBundle,
  ): Promise<void> {
    if (this.#closed || !this.#fleet.open.includes(worker)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const listener: CallListener = {
      ...{ onPlaced() {}, onLog() {}, onProgress() {}, onCapability() {}, onHeld() {}, onStuck() {} },
      onEnded: () => resolve(),
      onLost: () => resolve(),
    };
    const like = worker.toolIdOf(earlier);
    const order = { type: "call", tool: profile, callId: "prewarm", tenantId, prewarm: { like } } as const;
    let timer: NodeJS.Timeout | undefined;
    try {
      const seq = worker.start({ order, bundle, input: "" }, listener);
      timer = setTimeout(() => worker.cancel(seq), profile.limits.timeoutMs);
      this.#fleet.watch();
      await promise;
    } catch {
      // The process has ended: the next call of the tool starts another one.
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Releases what all processes keep warm of a tool. Calls of it that run go on.
   * @param bundle its code, which is forgotten where no other tool uses it
   */
  release(profiles: readonly WorkerToolProfile[], bundle: SentBundle | undefined): void {
    for (const worker of this.#fleet.open) {
      for (const profile of profiles) worker.release(profile, bundle);
    }
  }

  #makeWait(placed: PlacedJob, entry: Entry<PlacedJob>): void {
    const refusal = this.#queue.refusal(entry);
    if (refusal !== undefined) {
      this.#leaveQueue(placed, "over");
      throw refusal;
    }
    const { queueMs, claim } = placed.job;
    if (queueMs === undefined) return;
    placed.queueTimer = setTimeout(() => {
      const retryAfterMs = this.#queue.retryAfterMs(claim.account);
      const message = `The call waited ${queueMs} ms for its turn; try again in ${retryAfterMs} ms`;
      const cause = new ToolError("OVERLOADED", message, { details: { queueMs, retryAfterMs } });
      this.#giveUp(placed, { begun: false, cause });
    }, queueMs);
  }

  #cancel(placed: PlacedJob): void {
    // Nobody waits for it any more: should its process die of the cancel, it is not run again.
    placed.attempts = MAX_ATTEMPTS;
    if (placed.state === "placed") placed.worker?.cancel(placed.seq);
    if (placed.state === "queued") this.#leaveQueue(placed, "over");
  }

  #leaveQueue(placed: PlacedJob, state: PlacedJob["state"]): void {
    clearTimeout(placed.queueTimer);
    if (placed.entry !== undefined && !placed.entry.isOver) {
      this.#queue.remove(placed.entry);
      this.#countKind(placed.kind, -1);
    }
    placed.state = state;
  }

  #countKind(kind: string, change: 1 | -1): void {
    const count = (this.#queuedOfKind.get(kind) ?? 0) + change;
    if (count > 0) this.#queuedOfKind.set(kind, count);
    else this.#queuedOfKind.delete(kind);
  }

  /** Ending a process to make room comes back here: one round at a time. */
  #schedule(): void {
    if (this.#scheduling || this.#closed) return;
    this.#scheduling = true;
    try {
      // Each placing changes who is next.
      while (this.#placeNext());
      this.#fleet.refillSpares();
    } finally {
      this.#scheduling = false;
    }
  }

  #placeNext(): boolean {
    const hopeless = new Set<string>();
    let hopeful = this.#queue.queued;
    for (const entry of this.#queue.candidates()) {
      const { item } = entry;
      if (hopeless.has(item.kind)) continue;
      const isSeated = canUseParentSlot(entry);
      const worker = this.#workerFor(item.job, isSeated);
      if (worker !== undefined) {
        this.#place(item, worker);
        return true;
      }
      // A suspect may have been too much where another of its kind is not, and a nested call where one with its caller's place is not.
      const { lane, seat } = item.job.claim;
      if (this.#suspects.has(lane) || (seat !== undefined && !isSeated)) continue;
      hopeless.add(item.kind);
      hopeful -= this.#queuedOfKind.get(item.kind) ?? 0;
      // A thousand tenants that wait for the same processes are asked once, not each.
      if (hopeful <= 0) return false;
    }
    return false;
  }

  /** @param isSeated its caller waits for it in one of the places that there are: their number is no reason to let it wait */
  #workerFor(job: Job, isSeated: boolean): WorkerProcess | undefined {
    if (!isSeated && !this.#fleet.mayRunLast(job.owner)) return undefined;
    const home = job.session?.worker;
    if (home !== undefined) return this.#mayEnter(home, job) ? home : undefined;
    if (!this.#fleet.makeRoomFor(job.memoryMiB, job.owner)) return undefined;
    const { callsPerWorker, nestedPerWorker = 0 } = this.#options;
    const own = this.#fleet.usableBy(job.owner);
    if (job.fresh) return this.#freshFor(job, own.length);
    const isAlone = job.exclusive === true || this.#suspects.has(job.claim.lane);
    let best: WorkerProcess | undefined;
    for (const worker of own) {
      const window = isSeated ? callsPerWorker + nestedPerWorker : worker.window;
      const isBelow = worker.busy < window && worker.load < callsPerWorker + nestedPerWorker;
      const hasRoom = worker.load === 0 || (!isAlone && !worker.isExclusive && isBelow);
      if (hasRoom && worker.load < (best?.load ?? Number.POSITIVE_INFINITY)) best = worker;
    }
    // A process whose call waits for this one is as good as idle.
    const isCrowded = best === undefined || (best.load > 0 && !isSeated);
    if (isCrowded && this.#fleet.mayGrow(job.owner, isSeated)) best = this.#takeNew(job) ?? best;
    if (best?.load === 0) best.isExclusive = isAlone;
    return best;
  }

  /** What its conversation's isolate is in has no room beside others that want to be alone, or are too many. */
  #mayEnter(home: WorkerProcess, job: Job): boolean {
    const { callsPerWorker, nestedPerWorker = 0 } = this.#options;
    if (home.isEnding || home.isReleasing) return false;
    const isAlone = job.exclusive === true || home.isExclusive;
    return home.load === 0 || (!isAlone && home.load < callsPerWorker + nestedPerWorker);
  }

  /** Its isolate goes. Twice is a no-op. */
  endSession(seat: SessionSeat): void {
    const { worker } = seat;
    if (worker === undefined) return;
    this.#seats.get(worker)?.delete(seat);
    worker.endSession(seat.id);
  }

  #takeNew({ owner, flavour, dataBytes }: Job): WorkerProcess | undefined {
    const worker = this.#fleet.takeNew(owner, { flavour, dataBytes });
    const window = this.#fleet.isHeldBack(owner) ? PAST_SHARE_WINDOW : FIRST_WINDOW;
    if (worker !== undefined) worker.window = Math.min(window, this.#options.callsPerWorker);
    return worker;
  }

  /** An owner's first process serves it from then on, unless the job says no; a further one is used for this job and ended. */
  #freshFor(job: Job, owned: number): WorkerProcess | undefined {
    const worker = this.#takeNew(job);
    if (worker === undefined) return undefined;
    worker.singleUse = job.singleUse === true || owned > 0;
    // Until it is empty: what ran beside it could forge what it makes.
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
    addTo(this.#placed, worker, placed);
    if (job.session !== undefined && job.session.worker === undefined) {
      job.session.worker = worker;
      // What is alone in its process for a conversation nobody else can use afterwards.
      if (job.exclusive) worker.singleUse = true;
      addTo(this.#seats, worker, job.session);
    }
    addTo(this.#payers, worker, job.claim.account);
    try {
      placed.seq = worker.start(job, this.#listen(placed, worker));
      this.#fleet.watch();
    } catch (thrown) {
      // Half of it may be on its way: the process is of no more use, and the call has not begun.
      this.#giveUp(placed, { begun: false, cause: toToolError(thrown) });
      worker.kill();
      this.#placed.delete(worker);
      this.#payers.delete(worker);
    }
  }

  #listen(placed: PlacedJob, worker: WorkerProcess): CallListener {
    const { listener, claim } = placed.job;
    return {
      onPlaced: () => listener.onPlaced(),
      onStarted: () => listener.onStarted?.(),
      onHeld: (isHeld) => listener.onHeld(isHeld),
      onIdle: (isIdle) => listener.onIdle?.(isIdle),
      onLog: (level, time, text, place) => listener.onLog(level, time, text, place),
      onProgress: (text) => listener.onProgress(text),
      onCapability: (name, text, answer) => listener.onCapability(name, text, answer),
      onChunks: listener.onChunks,
      onEnded: (message, parts, peakBytes) => {
        this.#finish(placed);
        if (message.outcome === "output" || message.outcome === "streamed") {
          this.#suspects.endedWell(claim.lane);
          this.#fleet.endedWell(worker, message.usage.cpuMs);
        }
        listener.onEnded(message, parts, peakBytes);
      },
      onLost: (loss, peakBytes) => this.#onLost(placed, worker, loss, peakBytes),
      onStuck: () => this.#suspects.add(claim.lane),
    };
  }

  /** It runs no more, as far as the queue is concerned. */
  #finish(placed: PlacedJob): void {
    const { entry, worker } = placed;
    if (placed.state !== "placed" || entry === undefined) return;
    placed.state = "over";
    this.#queue.end(entry, performance.now() - placed.placedAt);
    if (worker !== undefined) this.#placed.get(worker)?.delete(placed);
  }

  #giveUp(placed: PlacedJob, loss: CallLossReason, peakBytes = 0): void {
    if (placed.state === "over") return;
    if (placed.state === "queued") this.#leaveQueue(placed, "over");
    else this.#finish(placed);
    placed.job.listener.onLost(loss, peakBytes);
  }

  /** Run again elsewhere what had not begun; what had is over, unless its author says that twice does no harm. */
  #onLost(placed: PlacedJob, worker: WorkerProcess, loss: CallLossReason, peakBytes: number): void {
    if (placed.state === "over") return;
    const { job } = placed;
    if (loss.isSuspect) this.#suspects.add(job.claim.lane);
    const mayRunAgain =
      (!loss.begun || job.idempotent === true) && loss.outOfMemory !== true && job.session === undefined;
    if (mayRunAgain && placed.attempts < MAX_ATTEMPTS && !this.#closed) {
      this.#finish(placed);
      placed.state = "queued";
      placed.worker = undefined;
      placed.entry = this.#queue.putBack(placed, job.claim);
      this.#countKind(placed.kind, 1);
      return;
    }
    this.#giveUp(placed, worker.isReady ? loss : { ...loss, cause: notStarted(worker), isNotStarted: true }, peakBytes);
  }

  #onChange(worker: WorkerProcess): void {
    if (worker.isDead) {
      this.#placed.delete(worker);
      this.#payers.delete(worker);
      this.#loseSeats(worker);
    } else if (worker.load === 0) worker.isExclusive = false;
    this.#schedule();
  }

  /** Calls of theirs that wait for it would wait for ever. */
  #loseSeats(worker: WorkerProcess): void {
    const seats = this.#seats.get(worker);
    if (seats === undefined) return;
    this.#seats.delete(worker);
    for (const { item } of [...this.#queue.entries()]) {
      if (item.job.session !== undefined && seats.has(item.job.session)) this.#giveUp(item, { begun: false });
    }
    for (const seat of seats) seat.onLost(worker.endReason);
  }

  /**
   * What a process has used is its tenants': of several, in equal parts. Calls that mostly wait get company, calls that compute do
   * not: threads past the cores only slow each other down.
   */
  #onCpu(worker: WorkerProcess, cpuMs: number): void {
    const payers = this.#payers.get(worker);
    if (payers !== undefined) {
      for (const account of payers) this.#queue.charge(account, cpuMs / payers.size);
      this.#payers.set(worker, new Set([...(this.#placed.get(worker) ?? [])].map(({ job }) => job.claim.account)));
    }
    const isFull = worker.load >= worker.window;
    if (worker.owner !== undefined && this.#fleet.isHeldBack(worker.owner))
      worker.window = Math.min(PAST_SHARE_WINDOW, this.#options.callsPerWorker);
    else if (worker.cpuRate >= BUSY_RATE) worker.window = FIRST_WINDOW;
    else if (isFull && this.#fleet.hasIdleCpu)
      worker.window = Math.min(worker.window + FIRST_WINDOW, this.#options.callsPerWorker);
    if (isFull) this.#schedule();
  }

  /** Time of the host's own event loop that went into an account's values. */
  chargeHostTime(account: string, ms: number): void {
    this.#queue.charge(account, HOST_TIME_FACTOR * ms);
  }

  #standingOf(owner: string): OwnerState {
    for (const [worker, jobs] of this.#placed) {
      if (worker.owner !== owner) continue;
      const [first] = jobs;
      if (first !== undefined) return this.#queue.standingOf(first.job.claim.account);
    }
    return { weight: 1, isBacklogged: false };
  }

  /** As `WorkerManager.endOwner`. */
  endOwner(owner: string, isShared: boolean): number {
    return this.#fleet.endOwner(owner, isShared);
  }

  /** Ends every process. Calls in them, and those that wait, hear that they are lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const { item } of [...this.#queue.entries()]) this.#giveUp(item, { begun: false });
    this.#fleet[Symbol.dispose]();
  }
}

/** What of a job decides which process it may have. */
function kindOf({ owner, claim, memoryMiB, session, flavour = "plain", dataBytes = 0, ...job }: Job): string {
  const { fresh = false, singleUse = false, exclusive = false } = job;
  return `${session?.id ?? ""} ${claim.seat !== undefined} ${fresh} ${singleUse} ${exclusive} ${memoryMiB} ${flavour} ${dataBytes} ${owner}`;
}

function addTo<Key, Value>(map: Map<Key, Set<Value>>, key: Key, value: Value): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, new Set([value]));
  else values.add(value);
}

/** Three processes died before they could be used: the machine has no room for one now. */
function notStarted(worker: WorkerProcess): ToolError {
  const cause = new Error(worker.diagnostics);
  return new ToolError("OVERLOADED", "A sandbox process could not be started", {
    cause,
    details: { retryAfterMs: 1_000 },
  });
}
