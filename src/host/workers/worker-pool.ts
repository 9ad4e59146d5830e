// The worker processes: how many there are, whose they are, which call goes where, and what is done when one dies.
import { ToolError, toToolError } from "../../sandbox/errors.ts";
import {
  type CallListener,
  type CallOrder,
  type SentBundle,
  WorkerProcess,
  type WorkerSources,
} from "./worker-process.ts";

export interface WorkerPoolOptions {
  /** Processes at most, spares included. */
  readonly max: number;
  /** Processes started ahead, that nobody has used. */
  readonly spares: number;
  /** Processes that one owner may have at one time. */
  readonly maxPerOwner: number;
  /** Calls that run in one process at one time. */
  readonly callsPerWorker: number;
  /** An idle process of an owner is ended after this long. */
  readonly idleMs: number;
}

/** A call for the pool to run. */
export interface Job {
  /** No process ever serves two owners. */
  readonly owner: string;
  readonly order: CallOrder;
  readonly bundle: SentBundle;
  readonly input: string;
  readonly listener: CallListener;
  /** It needs a process in which nothing has run yet. */
  readonly fresh?: boolean;
  /** Its process serves nobody afterwards: it is ended. */
  readonly singleUse?: boolean;
  /** It may be run again though it had begun. */
  readonly idempotent?: boolean;
}

interface PlacedJob {
  readonly job: Job;
  attempts: number;
  worker: WorkerProcess | undefined;
  seq: number;
  state: "queued" | "placed" | "over";
}

/** A job's handle. */
export interface Ticket {
  /** Ends the call: out of the queue at once, or out of its process. The listener still hears how it ended, if it had begun. */
  cancel(): void;
}

/** A job whose process dies before it has begun is tried this often in all: three deaths are not bad luck. */
const MAX_ATTEMPTS = 3;
const REAP_MS = 5_000;

export class WorkerPool implements AsyncDisposable {
  readonly #sources: WorkerSources;
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Set<WorkerProcess>();
  /** Waiting jobs by owner; owners are served in turn. */
  readonly #queues = new Map<string, PlacedJob[]>();
  readonly #reaper: NodeJS.Timeout;
  #failedStarts = 0;
  /** Why the last attempt to get a process failed; undefined when it only has to wait. */
  #refusal: ToolError | undefined;
  #scheduling = false;
  #closed = false;

  constructor(sources: WorkerSources, options: WorkerPoolOptions) {
    this.#sources = sources;
    this.#options = options;
    this.#reaper = setInterval(() => this.#reapIdle(), REAP_MS).unref();
    this.#refillSpares();
  }

  /** Process ids of all workers, for tests and the operator. */
  get pids(): readonly number[] {
    return [...this.#workers].flatMap((worker) => worker.pid ?? []);
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE when the pool is closed */
  run(job: Job): Ticket {
    if (this.#closed) throw new ToolError("TOOL_UNAVAILABLE", "Glovebox is closed");
    const placed: PlacedJob = { job, attempts: 0, worker: undefined, seq: 0, state: "queued" };
    this.#enqueue(placed);
    this.#schedule();
    return { cancel: () => this.#cancel(placed) };
  }

  #enqueue(placed: PlacedJob): void {
    const { owner } = placed.job;
    const queue = this.#queues.get(owner);
    if (queue === undefined) this.#queues.set(owner, [placed]);
    else queue.push(placed);
  }

  #cancel(placed: PlacedJob): void {
    // Nobody waits for it any more: should its process die of the cancel, it is not run again.
    placed.attempts = MAX_ATTEMPTS;
    if (placed.state === "placed") placed.worker?.cancel(placed.seq);
    // Left in its queue, to be passed over: taking one out of the middle of many would cost as many steps.
    if (placed.state === "queued") placed.state = "over";
  }

  /** Ending a process to make room comes back here: one round at a time. */
  #schedule(): void {
    if (this.#scheduling || this.#closed) return;
    this.#scheduling = true;
    try {
      this.#placeAll();
      this.#refillSpares();
    } finally {
      this.#scheduling = false;
    }
  }

  /** Places what can be placed: one job of each owner, then the next of each, until nothing fits. */
  #placeAll(): void {
    let moved = true;
    while (moved) {
      moved = false;
      for (const [owner, queue] of [...this.#queues]) {
        while (queue[0]?.state === "over") queue.shift();
        moved = this.#placeNext(queue) || moved;
        if (queue.length === 0) this.#queues.delete(owner);
      }
    }
  }

  /** The first of a queue; or, if that waits for a process of its own, the first that does not. */
  #placeNext(queue: PlacedJob[]): boolean {
    const ordinary = queue[0]?.job.fresh ? queue.find(({ job, state }) => !job.fresh && state === "queued") : undefined;
    for (const placed of [queue[0], ordinary]) {
      if (placed === undefined) continue;
      const worker = this.#workerFor(placed.job);
      const refused = worker === undefined ? this.#refusal : undefined;
      if (worker === undefined && refused === undefined) continue;
      queue.splice(queue.indexOf(placed), 1);
      if (worker !== undefined) this.#place(placed, worker);
      else this.#giveUp(placed, false, refused);
      return true;
    }
    return false;
  }

  #giveUp(placed: PlacedJob, begun: boolean, cause?: ToolError): void {
    if (placed.state === "over") return;
    placed.state = "over";
    placed.job.listener.onLost(begun, cause);
  }

  #workerFor(job: Job): WorkerProcess | undefined {
    this.#refusal = undefined;
    // One that may have to be killed in a moment, or that makes room for another owner, is given nothing more.
    const own = [...this.#workers].filter(
      (worker) => worker.owner === job.owner && !worker.singleUse && !worker.draining && !worker.isReleasing,
    );
    if (job.fresh) return this.#freshFor(job, own);
    const free = own.filter((worker) => worker.load < this.#options.callsPerWorker);
    const [best] = free.sort((a, b) => a.load - b.load);
    if (best?.load === 0 || own.length >= this.#options.maxPerOwner) return best;
    return this.#takeNew(job.owner) ?? best;
  }

  /** An owner's first process serves it from then on, unless the job says no; a further one is used for this job and ended. */
  #freshFor(job: Job, own: readonly WorkerProcess[]): WorkerProcess | undefined {
    const worker = this.#takeNew(job.owner);
    if (worker !== undefined) worker.singleUse = job.singleUse === true || own.length > 0;
    return worker;
  }

  /** A process that nobody has used: a spare, a new one, or a new one in the place of somebody's idle one. */
  #takeNew(owner: string): WorkerProcess | undefined {
    const spare = [...this.#workers]
      .filter((worker) => worker.owner === undefined)
      .sort((a, b) => Number(b.isReady) - Number(a.isReady))[0];
    if (spare !== undefined) {
      spare.owner = owner;
      return spare;
    }
    if (this.#workers.size >= this.#options.max && !this.#evict()) {
      this.#drainFor(owner);
      return undefined;
    }
    const worker = this.#spawn();
    if (worker !== undefined) worker.owner = owner;
    return worker;
  }

  /** Nobody is idle: an owner without any process gets the place of the one that has most, when its calls have ended. */
  #drainFor(owner: string): void {
    const counts = new Map<string, number>();
    for (const worker of this.#workers) {
      if (worker.draining) return;
      counts.set(worker.owner ?? "", (counts.get(worker.owner ?? "") ?? 0) + 1);
    }
    if (counts.has(owner)) return;
    const countOf = (worker: WorkerProcess): number => counts.get(worker.owner ?? "") ?? 0;
    const [giver] = [...this.#workers].sort((a, b) => countOf(b) - countOf(a) || a.load - b.load);
    if (giver !== undefined) giver.draining = true;
  }

  /** Ends the idle process that was used longest ago. */
  #evict(): boolean {
    const idle = [...this.#workers].filter((worker) => worker.load === 0 && worker.owner !== undefined);
    const [oldest] = idle.sort((a, b) => a.lastUsed - b.lastUsed);
    oldest?.kill();
    return oldest !== undefined;
  }

  /** Undefined when the machine gives none: `#refusal` says so to the job that asked. */
  #spawn(): WorkerProcess | undefined {
    try {
      const worker = new WorkerProcess(this.#sources, (changed) => this.#onChange(changed));
      this.#workers.add(worker);
      return worker;
    } catch (thrown) {
      this.#failedStarts += 1;
      this.#refusal = toToolError(thrown);
      return undefined;
    }
  }

  #refillSpares(): void {
    // A machine on which workers do not start is not helped by starting more of them.
    if (this.#failedStarts >= MAX_ATTEMPTS) return;
    let spares = [...this.#workers].filter((worker) => worker.owner === undefined).length;
    for (; spares < this.#options.spares && this.#workers.size < this.#options.max; spares += 1) {
      if (this.#spawn() === undefined) return;
    }
  }

  #onChange(worker: WorkerProcess): void {
    if (worker.isDead) {
      this.#workers.delete(worker);
      this.#failedStarts = worker.isReady ? 0 : this.#failedStarts + 1;
    } else if (worker.isReady) this.#failedStarts = 0;
    if (worker.singleUse && worker.load === 0 && worker.served > 0) worker.kill();
    this.#schedule();
  }

  #place(placed: PlacedJob, worker: WorkerProcess): void {
    const { job } = placed;
    const { listener } = job;
    placed.worker = worker;
    placed.state = "placed";
    placed.attempts += 1;
    const heard: CallListener = {
      onPlaced: () => listener.onPlaced(),
      onLog: (level, time, text) => listener.onLog(level, time, text),
      onProgress: (text) => listener.onProgress(text),
      onCapability: (name, text, answer) => listener.onCapability(name, text, answer),
      onEnded: (message, parts) => {
        placed.state = "over";
        listener.onEnded(message, parts);
      },
      onLost: (begun) => this.#onLost(placed, begun, worker),
    };
    try {
      placed.seq = worker.start(job.order, job.bundle, job.input, heard);
    } catch (thrown) {
      // Half of it may be on its way: the process is of no more use, and the call has not begun.
      this.#giveUp(placed, false, toToolError(thrown));
      worker.kill();
    }
  }

  /** Run again elsewhere what had not begun; what had is over, unless its author says that twice does no harm. */
  #onLost(placed: PlacedJob, begun: boolean, worker: WorkerProcess): void {
    if (placed.state === "over") return;
    const { job } = placed;
    const again = (!begun || job.idempotent === true) && placed.attempts < MAX_ATTEMPTS && !this.#closed;
    if (!again) {
      const cause = new Error(worker.diagnostics);
      const message = "A sandbox process could not be started";
      this.#giveUp(placed, begun, worker.isReady ? undefined : new ToolError("INTERNAL", message, { cause }));
      return;
    }
    placed.state = "queued";
    placed.worker = undefined;
    this.#enqueue(placed);
  }

  #reapIdle(): void {
    const now = performance.now();
    for (const worker of this.#workers) {
      const idle = worker.owner !== undefined && worker.load === 0 && !this.#queues.has(worker.owner);
      if (idle && now - worker.lastUsed > this.#options.idleMs) worker.kill();
    }
  }

  /** Ends every process. Calls in them, and those that wait, hear that they are lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#reaper);
    for (const queue of this.#queues.values()) {
      for (const placed of queue) this.#giveUp(placed, false);
    }
    this.#queues.clear();
    for (const worker of [...this.#workers]) worker.kill();
  }
}
