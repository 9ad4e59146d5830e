// Runs asynchronous calls: claims queued rows, runs them, and stores their outcomes. A server with executors gets the calls from the work queue
// and looks for others rarely; any other server polls the database. A call that the end of a drain cuts off is treated like one whose process
// has died.
import { randomUUID } from "node:crypto";
import type { WorkDelivery } from "../../../host/fleet/work-stream.ts";
import type { DatabaseKind } from "../../database/column-types.ts";
import {
  claimCalls,
  findExpired,
  type LeaseOptions,
  listWaitingTenants,
  renewLeases,
} from "../../records/calls/call-claims.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import { recoverCall } from "./call-recovery.ts";
import { ClaimedCalls, type ClaimedCallsDependencies } from "./claimed-calls.ts";
import { DeliveredCalls } from "./delivered-calls.ts";
import { divideSlots } from "./divide-slots.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Length of a lease in ms, and how often it is renewed. A process that is busy for longer than the difference could lose its calls. */
const LEASE_MS = 15_000;
const RENEW_MS = 4_000;
/** How often a process looks for calls that others have added, and for expired leases, in ms. */
const POLL_MS = 500;
/** Number of polls for each search for expired leases, while the work queue delivers calls. */
const SLOW_POLLS = 4;
/** Maximum number of calls that one process has claimed at the same time. */
const MAX_RUNNING = 32;
/** Maximum number of calls of one tenant among them, so that slots stay free for other tenants. */
const MOST_OF_TENANT = 24;
/** Maximum number of tenants with queued calls that are read at a time, in rotation. */
const MAX_TENANTS = 500;
/** Time in ms in which several calls without a free slot are reported once. */
const FULL_MS = 20;

export interface CallQueueDependencies extends ClaimedCallsDependencies {
  readonly kind: DatabaseKind;
  /** This server among those with the same database. It leaves calls to the others that have their session. Default: it is the only one. */
  readonly replicaId?: string | undefined;
  /** Delivers calls, for a server with executors. */
  readonly work?: WorkQueue | undefined;
  /** Called when calls were added for which this process has no free slot. Default: they wait. */
  readonly onFull?: () => void;
}

interface RunningCall {
  readonly tenantId: string;
  readonly done: Promise<void>;
  readonly controller: AbortController;
  /** Its messages in the work queue. */
  readonly deliveries: WorkDelivery[];
}

export class CallQueue implements AsyncDisposable {
  readonly #dependencies: CallQueueDependencies;
  readonly #owner: string = randomUUID();
  readonly #now: () => number;
  readonly #claimed: ClaimedCalls;
  readonly #running = new Map<string, RunningCall>();
  /** Claims of calls that were delivered, while the database is asked for them. */
  readonly #claims = new Set<Promise<unknown>>();
  #polling: NodeJS.Timeout | undefined;
  #renewing: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;
  #reportingFull: NodeJS.Timeout | undefined;
  #recovering: Promise<void> | undefined;
  #isWanted = false;
  /** Whether calls were added since the last claim has begun. */
  #isNotified = false;
  /** Id of a tenant after which the next look at the waiting tenants begins. */
  #after = "";
  #isClosed = false;

  constructor(dependencies: CallQueueDependencies) {
    this.#dependencies = dependencies;
    this.#now = dependencies.now ?? Date.now;
    this.#claimed = new ClaimedCalls(dependencies, () => this.#isClosed);
  }

  #lease(): LeaseOptions {
    const now = this.#now();
    return { owner: this.#owner, until: now + LEASE_MS, now };
  }

  start(): void {
    const { db, work } = this.#dependencies;
    let polls = 0;
    this.#polling = setInterval(() => {
      polls += 1;
      this.claimSoon();
      if (!this.#isDelivered || polls % SLOW_POLLS === 0) this.#recoverSoon();
    }, POLL_MS);
    this.#renewing = setInterval(() => void this.#safely(() => this.#renew()), RENEW_MS);
    this.#recoverSoon();
    const delivered = new DeliveredCalls({
      db,
      now: this.#now,
      keep: (delivery) => this.#keep(delivery),
      recover: (row) => this.#recoverOne(row),
      claim: (ids, deliveries) => this.#claimThese(ids, deliveries),
    });
    work?.start({
      take: async (deliveries) => await this.#safely(() => delivered.take(deliveries)),
      claim: async (ids) => void (await this.#claimThese(ids)),
    });
    this.claimSoon();
  }

  /** Whether the work queue delivers the calls. */
  get #isDelivered(): boolean {
    return this.#dependencies.work?.isHealthy === true;
  }

  /** One at a time: a slow database must not collect them. */
  #recoverSoon(): void {
    this.#recovering ??= this.#safely(() => this.#recover()).finally(() => {
      this.#recovering = undefined;
    });
  }

  /** Claims calls soon, or reports that no slot is free. Call it when calls were added. */
  notify(ids: readonly string[]): void {
    if (this.#isDelivered) {
      this.#dependencies.work?.announce(ids);
      return;
    }
    this.claimSoon();
    if (this.#isClosed || this.#isFull) this.#reportFull();
    // The claim that runs may take the last free slots.
    else this.#isNotified = true;
  }

  get #isFull(): boolean {
    return this.#running.size >= MAX_RUNNING || Math.max(0, ...this.#counts().values()) >= MOST_OF_TENANT;
  }

  #reportFull(): void {
    this.#reportingFull ??= setTimeout(() => {
      this.#reportingFull = undefined;
      this.#dependencies.onFull?.();
    }, FULL_MS);
  }

  /** Claims calls while slots are free. The work queue delivers its calls itself. */
  claimSoon(): void {
    this.#isWanted = true;
    if (this.#isClosed || this.#isDelivered) return;
    this.#claiming ??= this.#safely(() => this.#claim()).finally(() => {
      this.#claiming = undefined;
      if (this.#isNotified && this.#isFull) this.#reportFull();
      this.#isNotified = false;
      if (this.#isWanted && this.#running.size < MAX_RUNNING) this.claimSoon();
    });
  }

  /** Cancels a call that runs in this process. Returns false if it does not run here. @param tenantId default: of any tenant */
  cancel(id: string, tenantId?: string): boolean {
    const running = this.#running.get(id);
    if (running === undefined || (tenantId !== undefined && running.tenantId !== tenantId)) return false;
    running.controller.abort();
    return true;
  }

  /** Stops claiming, and resolves when the running calls have ended and their outcomes are stored. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#polling);
    this.#dependencies.work?.stop();
    await this.#recovering;
    await this.#claiming;
    await Promise.allSettled(this.#claims);
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
    clearInterval(this.#renewing);
    clearTimeout(this.#reportingFull);
  }

  /** Returns the number of calls of each tenant that run here. */
  #counts(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { tenantId } of this.#running.values()) counts.set(tenantId, (counts.get(tenantId) ?? 0) + 1);
    return counts;
  }

  /** Claims calls for the free slots, from all tenants that wait. */
  async #claim(): Promise<void> {
    this.#isWanted = false;
    for (let hasWrapped = false; this.#running.size < MAX_RUNNING && !this.#isClosed; ) {
      const isStart = this.#after === "";
      const page = { now: this.#now(), after: this.#after, limit: MAX_TENANTS };
      const { tenants, next } = await listWaitingTenants(this.#dependencies.db, page);
      this.#after = next;
      await this.#claimOf(new Set(tenants));
      if (hasWrapped || (isStart && next === "")) return;
      if (next === "") hasWrapped = true;
    }
  }

  /** Claims calls of tenants until no slot is free, none of them has calls, or each has its share. */
  async #claimOf(waiting: Set<string>): Promise<void> {
    const { db, kind, replicaId } = this.#dependencies;
    while (!this.#isClosed) {
      const free = MAX_RUNNING - this.#running.size;
      const tenants = divideSlots([...waiting], this.#counts(), { free, maxPerTenant: MOST_OF_TENANT });
      if (tenants.size === 0) return;
      const rows = await claimCalls({ db, kind }, free, { ...this.#lease(), replicaId, tenants });
      for (const row of rows) this.#begin(row);
      const claimed = Map.groupBy(rows, ({ tenant_id }) => tenant_id);
      for (const [tenantId, max] of tenants) if ((claimed.get(tenantId)?.length ?? 0) < max) waiting.delete(tenantId);
    }
  }

  /** Claims calls by their ids, and runs them. Returns the ids of those that it has claimed. */
  async #claimThese(
    ids: readonly string[],
    deliveries: ReadonlyMap<string, WorkDelivery> = new Map(),
  ): Promise<ReadonlySet<string>> {
    if (this.#isClosed) return new Set();
    const { db, kind } = this.#dependencies;
    const claim = async (): Promise<ReadonlySet<string>> => {
      const rows = await claimCalls({ db, kind }, ids.length, { ...this.#lease(), ids });
      for (const row of rows) this.#begin(row, deliveries.get(row.id));
      return new Set(rows.map(({ id }) => id));
    };
    const claiming = claim();
    this.#claims.add(claiming);
    return await claiming.finally(() => this.#claims.delete(claiming));
  }

  #begin(row: CallRow, delivery?: WorkDelivery): void {
    const controller = new AbortController();
    const deliveries = delivery === undefined ? [] : [delivery];
    let running: RunningCall | undefined;
    const done = this.#safely(async () => {
      const runAt = await this.#claimed.run(row, controller.signal);
      for (const one of deliveries) {
        if (runAt === undefined) one.ack();
        else one.later(runAt - this.#now());
      }
    }).finally(() => {
      // This process may have claimed the call again meanwhile: the lease of that claim is renewed further.
      if (this.#running.get(row.id) === running) this.#running.delete(row.id);
      // The outcome could not be stored: the server that gets the message next decides when the lease has expired.
      for (const one of deliveries) one.later(LEASE_MS);
      this.claimSoon();
    });
    running = { tenantId: row.tenant_id, done, controller, deliveries };
    this.#running.set(row.id, running);
  }

  /** Keeps a message of a call that runs here, such as one that NATS delivers again after an interruption. */
  #keep(delivery: WorkDelivery): boolean {
    const running = this.#running.get(delivery.id);
    running?.deliveries.push(delivery);
    return running !== undefined;
  }

  async #renew(): Promise<void> {
    if (this.#running.size === 0) return;
    for (const { deliveries } of this.#running.values()) for (const delivery of deliveries) delivery.working();
    // Not those that this process has lost sight of, such as a claim whose answer did not arrive.
    const ids = [...this.#running.keys()];
    for (const id of await renewLeases(this.#dependencies.db, ids, this.#lease())) this.cancel(id);
  }

  /** Decides about calls whose process is gone. */
  async #recover(): Promise<void> {
    for (const row of await findExpired(this.#dependencies.db, this.#now())) {
      if (!this.#running.has(row.id)) await this.#safely(async () => void (await this.#recoverOne(row)));
    }
  }

  /** Returns whether the call is in the queue again. */
  async #recoverOne(row: CallRow): Promise<boolean> {
    const { db, isIdempotent } = this.#dependencies;
    const isQueued = await recoverCall({ db, isIdempotent, now: this.#now }, row);
    if (isQueued) this.notify([row.id]);
    return isQueued;
  }

  async #safely(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      this.#dependencies.onError(thrown);
    }
  }
}
