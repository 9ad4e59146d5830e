// Distributes queued calls to the servers with one database, over NATS. The database decides which call runs: a message of the queue is only a
// hint, so this part publishes what has none, and the calls run from the database alone while NATS is away.
import { setTimeout as sleep } from "node:timers/promises";
import { LOCAL_POOL, type WorkDelivery, type WorkStream } from "../../../host/fleet/work-stream.ts";
import type { ExecutorInfo, ExecutorQueue } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import { BackgroundWork } from "../../operation/background-work.ts";
import { findQueued, type QueuedCall, type QueuePosition } from "../../records/calls/queued-calls.ts";
import { findTenant } from "../../records/tenants/tenants.ts";
import { WorkPulls } from "./work-pulls.ts";

/** How often free slots are looked for, in ms. Calls that end are noticed at once, those of other servers are not. */
const FILL_MS = 250;
/** How often the database is searched for calls that NATS has lost, in ms. */
const SWEEP_MS = 2_000;
/** A call that has been due for longer than this in ms is published, unless NATS has it. */
const UNPUBLISHED_MS = 2_000;
/** A call that has been due for longer than this in ms runs without a message, if NATS has none for the free slots of its pool. */
const STUCK_MS = 15_000;
/** Calls of such kind that one server claims at the same time. */
const MAX_STUCK = 8;
const PAGE_SIZE = 500;
const MAX_PUBLISHING = 50;
const REOPEN_MS = 1_000;
/** Time in ms for which the pools of a tenant are remembered. They only decide where its messages wait. */
const POOLS_MS = 5_000;
const MAX_TENANTS = 10_000;
const DEFAULT_POOLS = ["default"] as const;

export interface WorkQueueDependencies {
  readonly stream: WorkStream;
  readonly db: Db;
  /** Milliseconds since 1970, the same in all processes with this database. */
  readonly now: () => number;
  readonly executors: () => readonly ExecutorInfo[];
  readonly isWaiting: (callId: string) => boolean;
  /** Returns whether this server reports what waits in NATS, so that the sum over all servers is right. */
  readonly isReporter: () => Promise<boolean>;
  readonly onError: (error: unknown) => void;
}

/** Runs the calls that the work queue delivers. */
export interface WorkReceiver {
  readonly take: (deliveries: readonly WorkDelivery[]) => Promise<void>;
  /** Claims calls that have no message. */
  readonly claim: (ids: readonly string[]) => Promise<void>;
}

interface Targeted {
  readonly call: QueuedCall;
  readonly pool: string;
}

export class WorkQueue implements AsyncDisposable {
  readonly #dependencies: WorkQueueDependencies;
  readonly #background: BackgroundWork;
  readonly #pulls: WorkPulls;
  readonly #pools = new Map<string, { readonly pools: readonly string[]; readonly readAt: number }>();
  readonly #announced = new Set<string>();
  readonly #stopping = new AbortController();
  #receiver: WorkReceiver | undefined;
  #announcing: Promise<void> | undefined;
  #sweeping: Promise<void> | undefined;
  #after: QueuePosition | undefined;
  #backlog: readonly ExecutorQueue[] = [];
  #isReporter = false;
  #isHealthy = true;
  /** Counts how often NATS was found again. */
  #reopened = 0;
  #timers: readonly NodeJS.Timeout[] = [];

  constructor(dependencies: WorkQueueDependencies) {
    this.#dependencies = dependencies;
    this.#background = new BackgroundWork(dependencies.onError);
    this.#pulls = new WorkPulls({
      stream: dependencies.stream,
      executors: dependencies.executors,
      isWaiting: dependencies.isWaiting,
      onDeliveries: (deliveries) => void this.#background.run(async () => await this.#receiver?.take(deliveries)),
      onFailed: (error) => this.#fail(error),
    });
  }

  /** Whether calls arrive. Otherwise they have to be looked for in the database. */
  get isHealthy(): boolean {
    return this.#isHealthy;
  }

  /** Calls that wait in NATS, by pool. */
  get backlog(): readonly ExecutorQueue[] {
    return this.#isHealthy ? this.#backlog : [];
  }

  /** The same for metrics. Empty if another server reports them. */
  get reported(): readonly ExecutorQueue[] {
    return this.#isReporter ? this.backlog : [];
  }

  start(receiver: WorkReceiver): void {
    this.#receiver = receiver;
    const interrupted = (): void => this.#fail(new Error("The connection to NATS was interrupted"));
    this.#dependencies.stream.follow(interrupted);
    // Reported by the executors' connection.
    if (!this.#dependencies.stream.isOpen) this.#leaveToDatabase();
    this.#timers = [setInterval(() => this.fill(), FILL_MS), setInterval(() => this.#sweepSoon(), SWEEP_MS)];
    this.fill();
    this.#sweepSoon();
  }

  /** Requests as many calls as there is room for. */
  fill(): void {
    if (this.#isHealthy && this.#receiver !== undefined) this.#pulls.fill();
  }

  /** Publishes calls that were added to the queue. */
  announce(ids: readonly string[]): void {
    for (const id of ids) this.#announced.add(id);
    if (this.#stopping.signal.aborted) return;
    this.#announcing ??= this.#background
      .run(() => this.#announce())
      .finally(() => {
        this.#announcing = undefined;
        if (this.#announced.size > 0 && this.#isHealthy) this.announce([]);
      });
  }

  async #announce(): Promise<void> {
    // Calls that are added at about the same time cost one query.
    await new Promise(setImmediate);
    const ids = [...this.#announced].slice(0, PAGE_SIZE);
    for (const id of ids) this.#announced.delete(id);
    if (ids.length > 0) await this.#publish(await findQueued(this.#dependencies.db, { ids }));
  }

  /** Publishes calls. Returns those that NATS did not add: it has them, or had them a short while ago. */
  async #publish(calls: readonly QueuedCall[]): Promise<readonly Targeted[]> {
    const reopened = this.#reopened;
    const known: Targeted[] = [];
    const targeted: Targeted[] = [];
    for (const call of calls) targeted.push({ call, pool: await this.#poolOf(call) });
    try {
      for (let start = 0; start < targeted.length; start += MAX_PUBLISHING) {
        const batch = targeted.slice(start, start + MAX_PUBLISHING);
        const added = await Promise.all(batch.map(({ call, pool }) => this.#dependencies.stream.publish(pool, call)));
        known.push(...batch.filter((_, index) => added[index] === false));
      }
    } catch (thrown) {
      // What was sent before an interruption may fail long after it.
      if (reopened === this.#reopened) this.#fail(thrown);
    }
    return known;
  }

  /** Returns the pool in which a call waits: of its tenant's pools, the one with the most free slots. It runs in any of them. */
  async #poolOf({ tenantId, isLocal }: QueuedCall): Promise<string> {
    if (isLocal) return LOCAL_POOL;
    const pools = await this.#poolsOf(tenantId);
    const [only = DEFAULT_POOLS[0], ...others] = pools;
    if (others.length === 0) return only;
    const free = new Map<string, number>();
    for (const one of this.#dependencies.executors()) free.set(one.pool, (free.get(one.pool) ?? 0) + one.free);
    return pools.reduce((best, pool) => ((free.get(pool) ?? -1) > (free.get(best) ?? -1) ? pool : best));
  }

  async #poolsOf(tenantId: string): Promise<readonly string[]> {
    const known = this.#pools.get(tenantId);
    if (known !== undefined && performance.now() - known.readAt < POOLS_MS) return known.pools;
    const tenant = await findTenant(this.#dependencies.db, tenantId);
    const pools = tenant?.policy.pools ?? DEFAULT_POOLS;
    if (this.#pools.size >= MAX_TENANTS) this.#pools.clear();
    this.#pools.set(tenantId, { pools, readAt: performance.now() });
    return pools;
  }

  #sweepSoon(): void {
    if (!this.#isHealthy || this.#stopping.signal.aborted) return;
    this.#sweeping ??= this.#background
      .run(() => this.#sweep())
      .finally(() => {
        this.#sweeping = undefined;
      });
  }

  /** Publishes a page of the calls that are overdue, and more of them as long as NATS has few. */
  async #sweep(): Promise<void> {
    const { db, now } = this.#dependencies;
    const stuck: string[] = [];
    for (let isMore = true; isMore && this.#isHealthy && !this.#stopping.signal.aborted; ) {
      const dueBefore = now() - UNPUBLISHED_MS;
      const page = await findQueued(db, { dueBefore, after: this.#after, limit: PAGE_SIZE });
      this.#after = page.length < PAGE_SIZE ? undefined : page.at(-1);
      const known = await this.#publish(page);
      stuck.push(...this.#stuckOf(known));
      isMore = this.#after !== undefined && known.length < PAGE_SIZE / 2;
    }
    if (stuck.length > 0) await this.#receiver?.claim(stuck.slice(0, MAX_STUCK));
    await this.#readBacklog();
  }

  #stuckOf(known: readonly Targeted[]): readonly string[] {
    const { now, stream } = this.#dependencies;
    const dueBefore = now() - STUCK_MS;
    return known.flatMap(({ call: { id, tenantId, runAt }, pool }) =>
      runAt < dueBefore && this.#pulls.isIdle(pool, stream.shardOf(tenantId)) ? [id] : [],
    );
  }

  async #readBacklog(): Promise<void> {
    const { stream, isReporter } = this.#dependencies;
    this.#isReporter = await isReporter();
    try {
      const pools = (await stream.backlog()).filter(({ pool, queued }) => pool !== LOCAL_POOL && queued > 0);
      const ageOf = (at: number | undefined): number => (at === undefined ? 0 : Math.max(0, Date.now() - at));
      this.#backlog = pools.map(({ pool, queued, oldestAt }) => ({ pool, queued, oldestMs: ageOf(oldestAt) }));
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  /** Leaves the calls to the database until NATS has the queue again. */
  #fail(cause: unknown): void {
    if (!this.#isHealthy || this.#stopping.signal.aborted) return;
    this.#report(cause);
    this.#leaveToDatabase();
  }

  #report(cause: unknown): void {
    this.#dependencies.onError(
      new Error("The work queue cannot be used. Queued calls come from the database", { cause }),
    );
  }

  #leaveToDatabase(): void {
    this.#isHealthy = false;
    this.#pulls.pause();
    void this.#background.run(() => this.#reopen());
  }

  async #reopen(): Promise<void> {
    const { signal } = this.#stopping;
    let isReported = false;
    while (!signal.aborted) {
      await sleep(REOPEN_MS, undefined, { signal }).catch(() => {});
      try {
        if (signal.aborted) return;
        await this.#dependencies.stream.open();
        break;
      } catch (thrown) {
        // Other failures were reported when the queue failed first.
        if (this.#dependencies.stream.isOpen || !this.#dependencies.stream.isReached || isReported) continue;
        isReported = true;
        this.#report(thrown);
      }
    }
    this.#isHealthy = true;
    this.#reopened += 1;
    this.#after = undefined;
    this.announce([]);
    this.#pulls.resume();
    this.#sweepSoon();
  }

  /** Requests no more calls. Those that run keep their messages. */
  stop(): void {
    this.#stopping.abort();
    for (const timer of this.#timers) clearInterval(timer);
    this.#pulls.stop();
  }

  /** Sends what was acknowledged, and closes the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    // What waits for an answer of NATS ends with the connection.
    if (this.#isHealthy) await this.#background.settled();
    await this.#dependencies.stream[Symbol.asyncDispose]();
    await this.#background.settled();
  }
}
