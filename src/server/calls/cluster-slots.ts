// Limits the calls of a tenant that run at the same time over all replicas. Each replica takes slots from the database and keeps them while the
// tenant makes calls, so that a tenant whose calls arrive at one replica costs no query for each of them.
import { LIMITS, ToolError, unavailable } from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { BackgroundWork } from "../operation/background-work.ts";
import { deleteEndedSlots, giveSlotsBack, renewSlots, takeSlots } from "../records/concurrency-slots.ts";
import type { TenantRecord } from "../records/tenants.ts";
import type { ReplicaBus } from "../replicas/bus.ts";

/** How often leases are renewed and unused slots given back, in ms. */
const RENEW_MS = 3_000;
/** Slots of a tenant without calls are given back after this time in ms. */
const IDLE_MS = 30_000;
/** How often a call that waits looks for free slots without being notified, in ms. */
const RETRY_MS = 250;
/** For how long in ms slots are given back at once after another replica needed some. */
const WANTED_MS = 2_000;
const RETRY_AFTER_MS = 1_000;

type Limit = "maxConcurrentCalls" | "maxQueuedCalls" | "queueMs";

/** The right to run a call. */
export interface ClusterSlot {
  release(): void;
}

interface Waiter {
  readonly callId: string;
  /** Ends the wait. It is in the set of its tenant until then. */
  readonly settle: (slot: ClusterSlot | ToolError) => void;
}

interface TenantSlots {
  limit: number;
  held: number;
  /**
   * The limit was lowered, or more calls run than the limit allows: a slot that a call has released is given back, and the next call takes
   * its slot from the database.
   */
  isOver: boolean;
  used: number;
  readonly waiting: Set<Waiter>;
  taking: Promise<void> | undefined;
  usedAt: number;
  /** Until when another replica waits for slots, by performance.now(). */
  wantedUntil: number;
}

export interface ClusterSlotsDependencies {
  readonly database: OpenDatabase;
  readonly bus: ReplicaBus;
  /** Limits of every call of the server. */
  readonly limits: { readonly [Name in Limit]?: number | undefined };
  readonly onError: (error: unknown) => void;
}

type LimitedTenant = Pick<TenantRecord, "id" | "policy">;
export class ClusterSlots implements AsyncDisposable {
  readonly #dependencies: ClusterSlotsDependencies;
  readonly #tenants = new Map<string, TenantSlots>();
  readonly #waiting = new Set<string>();
  readonly #subscription: Disposable;
  readonly #background: BackgroundWork;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  /** Whether no further call runs. */
  #isClosed = false;
  #isDisposed = false;

  constructor(dependencies: ClusterSlotsDependencies) {
    this.#dependencies = dependencies;
    const { bus, onError } = dependencies;
    this.#background = new BackgroundWork(onError);
    this.#subscription = bus.subscribe("slots", ({ sender, message: { tenant, isFree } }) => {
      const found = this.#tenants.get(tenant);
      if (sender === bus.replicaId || found === undefined) return;
      if (isFree) this.#take(tenant, found);
      else {
        found.wantedUntil = performance.now() + WANTED_MS;
        if (found.waiting.size === 0) this.#giveBack(tenant, found);
      }
    });
  }

  /**
   * Waits for a slot. With SQLite there is one process, which has its own limit.
   * @param signal a call whose caller leaves gets a slot at once: it ends before it begins
   * @throws {ToolError} OVERLOADED if too many calls of the tenant wait, or this one has waited too long; CANCELLED
   */
  async acquire(tenant: LimitedTenant, callId: string, signal?: AbortSignal): Promise<ClusterSlot> {
    if (this.#dependencies.database.kind !== "postgres") return FREE;
    if (this.#isClosed) throw unavailable("shutting_down", "The server is shutting down");
    const slots = this.#slotsOf(tenant);
    if (slots.waiting.size === 0 && slots.used < slots.held && !slots.isOver) return this.#use(tenant.id, slots);
    const maxQueued = this.#limitOf(tenant, "maxQueuedCalls");
    // Those within the limit do not queue: they wait for the answer of the database.
    if (slots.waiting.size >= maxQueued + Math.max(0, slots.limit - slots.used))
      throw overloaded(`at most ${maxQueued} calls of this tenant may wait (limits.maxQueuedCalls)`);
    const { promise, resolve } = Promise.withResolvers<ClusterSlot | ToolError>();
    const settle = (outcome: ClusterSlot | ToolError): void => {
      slots.waiting.delete(waiter);
      this.#waiting.delete(callId);
      resolve(outcome);
    };
    const waiter: Waiter = { callId, settle };
    slots.waiting.add(waiter);
    this.#waiting.add(callId);
    const queueMs = this.#limitOf(tenant, "queueMs");
    const late = (): void =>
      settle(overloaded(`no slot of this tenant was free within ${queueMs} ms (limits.queueMs)`));
    const timer = setTimeout(late, queueMs);
    const leave = (): void => settle(FREE);
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted === true) leave();
    this.#take(tenant.id, slots);
    try {
      const slot = await promise;
      if (slot instanceof ToolError) throw slot;
      return slot;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Whether a call waits for a slot. */
  isWaiting(callId: string): boolean {
    return this.#waiting.has(callId);
  }

  /** Cancels a call that waits for a slot. Returns false if it does not. */
  cancel(tenantId: string, callId: string): boolean {
    for (const waiter of this.#tenants.get(tenantId)?.waiting ?? []) {
      if (waiter.callId !== callId) continue;
      waiter.settle(cancelled("cancelled_by_host"));
      return true;
    }
    return false;
  }

  /** Cancels the calls of a tenant that wait. @param reason `details.reason` of their errors */
  cancelAll(tenantId: string, reason: string): void {
    for (const waiter of this.#tenants.get(tenantId)?.waiting ?? []) waiter.settle(cancelled(reason));
  }

  /** Lets no further call run: those that wait are cancelled, and other replicas get the slots that no call uses. */
  stop(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    for (const [tenantId, slots] of this.#tenants) {
      this.cancelAll(tenantId, "shutting_down");
      this.#giveBack(tenantId, slots);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    this.#isDisposed = true;
    this.#subscription[Symbol.dispose]();
    clearInterval(this.#timer);
    await this.#background.settled();
    const { database, bus } = this.#dependencies;
    if (this.#tenants.size === 0) return;
    await database.db
      .deleteFrom("concurrency_slots")
      .where("replica_id", "=", bus.replicaId)
      .execute()
      .catch(this.#dependencies.onError);
  }

  #slotsOf(tenant: LimitedTenant): TenantSlots {
    const limit = this.#limitOf(tenant, "maxConcurrentCalls");
    const known = this.#tenants.get(tenant.id);
    if (known !== undefined) {
      if (known.limit !== limit) this.#changeLimit(tenant.id, known, limit);
      return known;
    }
    const fresh = {
      limit,
      held: 0,
      isOver: false,
      used: 0,
      waiting: new Set<Waiter>(),
      taking: undefined,
      usedAt: 0,
      wantedUntil: 0,
    };
    this.#tenants.set(tenant.id, fresh);
    this.#timer ??= setInterval(() => this.#background.run(() => this.#renew()), RENEW_MS);
    return fresh;
  }

  /** The slots of a higher limit are more than there are, so the replicas divide them again. */
  #changeLimit(tenantId: string, slots: TenantSlots, limit: number): void {
    const isLower = limit < slots.limit;
    slots.limit = limit;
    if (!isLower) return;
    slots.isOver = true;
    this.#giveBack(tenantId, slots);
  }

  #limitOf({ policy }: LimitedTenant, name: Limit): number {
    const configured = [policy.limits?.[name], this.#dependencies.limits[name]].filter((value) => value !== undefined);
    return configured.length === 0 ? LIMITS[name].default : Math.ceil(Math.min(...configured));
  }

  #use(tenantId: string, slots: TenantSlots): ClusterSlot {
    slots.used += 1;
    slots.usedAt = performance.now();
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        slots.used -= 1;
        slots.usedAt = performance.now();
        const isWanted = this.#isClosed || slots.wantedUntil > slots.usedAt;
        // Calls wait here and at another replica: each of them gets the slot in half of the cases.
        const isOthers = slots.isOver || (isWanted && (slots.waiting.size === 0 || Math.random() < 0.5));
        if (isOthers) this.#giveBack(tenantId, slots);
        else this.#serve(tenantId, slots);
      },
    };
  }

  /** Gives free slots to calls that wait, in order. */
  #serve(tenantId: string, slots: TenantSlots): void {
    if (slots.isOver) return;
    for (const waiter of slots.waiting) {
      if (slots.used >= slots.held) return;
      waiter.settle(this.#use(tenantId, slots));
    }
  }

  /** Takes slots for the calls that wait, one request of a tenant at a time. */
  #take(tenantId: string, slots: TenantSlots): void {
    if (this.#isClosed || slots.waiting.size === 0) return;
    slots.taking ??= this.#background
      .run(async () => {
        const { database, bus } = this.#dependencies;
        const { limit, used } = slots;
        const request = { tenantId, replicaId: bus.replicaId, limit, used, needed: used + slots.waiting.size };
        const { held, others, isOver } = await takeSlots(database.db, request);
        slots.held = held;
        slots.isOver = isOver || slots.limit < limit;
        this.#serve(tenantId, slots);
        if (slots.waiting.size > 0 && others > 0) await bus.publish({ type: "slots", tenant: tenantId, isFree: false });
      })
      .finally(() => {
        slots.taking = undefined;
        if (slots.waiting.size > 0) this.#retryLater();
        if (this.#isClosed || slots.isOver) this.#giveBack(tenantId, slots);
      });
  }

  #retryLater(): void {
    if (this.#isClosed) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      for (const [tenantId, slots] of this.#tenants) this.#take(tenantId, slots);
    }, RETRY_MS);
  }

  /** Gives back what no call uses, because another replica needs it. */
  #giveBack(tenantId: string, slots: TenantSlots): void {
    if (this.#isDisposed || slots.taking !== undefined || slots.held <= slots.used) return;
    slots.held = slots.used;
    slots.taking = this.#background
      .run(async () => {
        const { database, bus } = this.#dependencies;
        await giveSlotsBack(database.db, tenantId, bus.replicaId, slots.held);
        await bus.publish({ type: "slots", tenant: tenantId, isFree: true });
      })
      .finally(() => {
        slots.taking = undefined;
        // Later, so that the other replica is faster.
        if (slots.waiting.size > 0) this.#retryLater();
        // Those that were released meanwhile.
        if (this.#isClosed || slots.isOver) this.#giveBack(tenantId, slots);
      });
  }

  /** Gives all slots of a tenant back. A call that comes meanwhile takes new ones afterwards. */
  #forget(tenantId: string, slots: TenantSlots): void {
    const { database, bus } = this.#dependencies;
    slots.held = 0;
    slots.taking = this.#background
      .run(() => giveSlotsBack(database.db, tenantId, bus.replicaId, 0))
      .finally(() => {
        slots.taking = undefined;
        if (slots.waiting.size > 0) this.#take(tenantId, slots);
        else this.#tenants.delete(tenantId);
      });
  }

  async #renew(): Promise<void> {
    const { database, bus } = this.#dependencies;
    const now = performance.now();
    for (const [tenantId, slots] of this.#tenants) {
      const isIdle = slots.used === 0 && slots.waiting.size === 0 && slots.taking === undefined;
      if (isIdle && now - slots.usedAt >= IDLE_MS) this.#forget(tenantId, slots);
    }
    const kept = await renewSlots(database.db, bus.replicaId);
    // What others may have taken while this process was frozen or without its database. Calls that run go on, and the next ones take new slots.
    for (const [tenantId, slots] of this.#tenants)
      if (!kept.has(tenantId) && slots.taking === undefined) slots.held = 0;
    await deleteEndedSlots(database.db);
  }
}

const FREE: ClusterSlot = { release: () => {} };

const overloaded = (why: string): ToolError =>
  new ToolError("OVERLOADED", `The tenant runs as many calls as it may over all replicas: ${why}`, {
    details: { retryAfterMs: RETRY_AFTER_MS },
  });

const cancelled = (reason: string): ToolError =>
  new ToolError("CANCELLED", "The call was cancelled before it ran", { details: { reason } });
