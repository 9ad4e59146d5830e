// Limits the calls of a tenant, and those of a key, that run at the same time over all replicas. Each replica takes slots from the database and
// keeps them while there are calls, so that a tenant whose calls arrive at one replica costs no query for each of them.
import { LIMITS, ToolError, unavailable } from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { BackgroundWork } from "../operation/background-work.ts";
import type { KeyCallLimits } from "../records/tenants/api-keys.ts";
import {
  deleteEndedSlots,
  giveAllSlotsBack,
  giveSlotsBack,
  renewSlots,
  type SlotOwner,
  takeSlots,
} from "../records/tenants/concurrency-slots.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import type { ReplicaBus } from "../replicas/bus.ts";

/** How often leases are renewed and unused slots given back, in ms. */
const RENEW_MS = 3_000;
/** Slots of an owner without calls are given back after this time in ms. */
const IDLE_MS = 30_000;
/** How often a call that waits looks for free slots without being notified, in ms. */
const RETRY_MS = 250;
/** For how long in ms slots are given back at once after another replica needed some. */
const WANTED_MS = 2_000;
const RETRY_AFTER_MS = 1_000;

/** `details.reason` of a call whose key runs as many calls at the same time as it may. */
export const TOO_MANY_CALLS = "too_many_calls";

type Limit = "maxConcurrentCalls" | "maxQueuedCalls" | "queueMs";

/** The right to run a call. */
export interface ClusterSlot {
  release(): void;
}

/** Calls of an owner of slots in one replica. */
export interface SlotCounts {
  readonly running: number;
  readonly waiting: number;
}

interface Waiter {
  readonly callId: string;
  readonly tenantId: string;
  /** Ends the wait. It is in the set of its owner until then. */
  readonly settle: (slot: ClusterSlot | ToolError) => void;
}

interface OwnerSlots {
  readonly owner: SlotOwner;
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
  /** Returns the limits of the calls of a caller; undefined for one without. Default: no caller has limits. */
  readonly limitsOf?:
    | ((callerId: string) => Promise<KeyCallLimits | undefined> | KeyCallLimits | undefined)
    | undefined;
  readonly onError: (error: unknown) => void;
}

type LimitedTenant = Pick<TenantRecord, "id" | "policy">;

/** Who waits for a slot, and how. */
interface SlotRequest {
  readonly owner: SlotOwner;
  readonly limit: number;
  readonly maxQueued: number;
  readonly queueMs: number;
  readonly callId: string;
  readonly tenantId: string;
  readonly signal: AbortSignal | undefined;
}

/** Identifies an owner in this process and in messages. A tenant's id has no slash. */
const nameOf = ({ kind, id }: SlotOwner): string => (kind === "tenant" ? id : `${kind}/${id}`);

export class ClusterSlots implements AsyncDisposable {
  readonly #dependencies: ClusterSlotsDependencies;
  readonly #owners = new Map<string, OwnerSlots>();
  readonly #waiting = new Map<string, Waiter>();
  /** Whether other replicas have slots too. With SQLite there is one process, and the limit of a tenant is that of its Glovebox. */
  readonly #isShared: boolean;
  readonly #subscription: Disposable;
  readonly #background: BackgroundWork;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  /** Whether no further call runs. */
  #isClosed = false;
  #isDisposed = false;

  constructor(dependencies: ClusterSlotsDependencies) {
    this.#dependencies = dependencies;
    const { database, bus, onError } = dependencies;
    this.#isShared = database.kind === "postgres";
    this.#background = new BackgroundWork(onError);
    this.#subscription = bus.subscribe("slots", ({ sender, message: { tenant: name, isFree } }) => {
      const found = this.#owners.get(name);
      if (sender === bus.replicaId || found === undefined) return;
      if (isFree) this.#take(found);
      else {
        found.wantedUntil = performance.now() + WANTED_MS;
        if (found.waiting.size === 0) this.#giveBack(found);
      }
    });
  }

  /**
   * Waits for a slot of the caller, if it has a limit of its own, and for one of the tenant.
   * @param signal a call whose caller leaves gets a slot at once: it ends before it begins
   * @throws {ToolError} OVERLOADED if too many calls of the tenant wait, or this one has waited too long; QUOTA_EXCEEDED for those of the caller;
   *   CANCELLED
   */
  async acquire(tenant: LimitedTenant, callId: string, signal?: AbortSignal, callerId?: string): Promise<ClusterSlot> {
    const found = callerId === undefined ? undefined : this.#dependencies.limitsOf?.(callerId);
    const { limits } = (found instanceof Promise ? await found : found) ?? {};
    const queueMs = this.limitOf(tenant.policy, "queueMs");
    const common = { callId, tenantId: tenant.id, signal, queueMs };
    let ofCaller: ClusterSlot | undefined;
    if (callerId !== undefined && limits?.maxConcurrentCalls !== undefined) {
      const { maxConcurrentCalls: limit, maxQueuedCalls = this.limitOf(tenant.policy, "maxQueuedCalls") } = limits;
      const owner = { kind: "key", id: callerId } as const;
      // Before that of the tenant: calls that wait here leave the tenant's slots to others.
      ofCaller = await this.#acquire({ ...common, owner, limit, maxQueued: maxQueuedCalls });
    }
    if (!this.#isShared) return ofCaller ?? FREE;
    try {
      const owner = { kind: "tenant", id: tenant.id } as const;
      const limit = this.limitOf(tenant.policy, "maxConcurrentCalls");
      const own = await this.#acquire({
        ...common,
        owner,
        limit,
        maxQueued: this.limitOf(tenant.policy, "maxQueuedCalls"),
      });
      if (ofCaller === undefined) return own;
      return {
        release: () => {
          own.release();
          ofCaller?.release();
        },
      };
    } catch (thrown) {
      ofCaller?.release();
      throw thrown;
    }
  }

  async #acquire(request: SlotRequest): Promise<ClusterSlot> {
    const { callId, tenantId, signal, maxQueued, queueMs } = request;
    if (this.#isClosed) throw unavailable("shutting_down", "The server is shutting down");
    const slots = this.#slotsOf(request);
    if (slots.waiting.size === 0 && slots.used < slots.held && !slots.isOver) return this.#use(slots);
    // Those within the limit do not queue: they wait for the answer of the database.
    if (slots.waiting.size >= maxQueued + Math.max(0, slots.limit - slots.used)) throw fullError(request);
    const { promise, resolve } = Promise.withResolvers<ClusterSlot | ToolError>();
    const settle = (outcome: ClusterSlot | ToolError): void => {
      slots.waiting.delete(waiter);
      if (this.#waiting.get(callId) === waiter) this.#waiting.delete(callId);
      resolve(outcome);
    };
    const waiter: Waiter = { callId, tenantId, settle };
    slots.waiting.add(waiter);
    this.#waiting.set(callId, waiter);
    const timer = setTimeout(() => settle(lateError(request)), queueMs);
    const leave = (): void => settle(FREE);
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted === true) leave();
    this.#take(slots);
    try {
      const slot = await promise;
      if (slot instanceof ToolError) throw slot;
      return slot;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Returns how many calls of an owner run here, and how many wait. */
  counts(owner: SlotOwner): SlotCounts {
    const { used = 0, waiting } = this.#owners.get(nameOf(owner)) ?? {};
    return { running: used, waiting: waiting?.size ?? 0 };
  }

  /** Whether a call waits for a slot. */
  isWaiting(callId: string): boolean {
    return this.#waiting.has(callId);
  }

  /** Cancels a call that waits for a slot. Returns false if it does not. */
  cancel(tenantId: string, callId: string): boolean {
    const waiter = this.#waiting.get(callId);
    if (waiter?.tenantId !== tenantId) return false;
    waiter.settle(cancelled("cancelled_by_host"));
    return true;
  }

  /** Cancels the calls of a tenant that wait. @param reason `details.reason` of their errors */
  cancelAll(tenantId: string, reason: string): void {
    for (const waiter of [...this.#waiting.values()])
      if (waiter.tenantId === tenantId) waiter.settle(cancelled(reason));
  }

  /** Applies the limit of a key as it is now to the calls of the key that wait here. */
  async applyKeyLimit(keyId: string): Promise<void> {
    const slots = this.#owners.get(nameOf({ kind: "key", id: keyId }));
    if (slots === undefined || slots.waiting.size === 0) return;
    const limit = (await this.#dependencies.limitsOf?.(keyId))?.limits?.maxConcurrentCalls;
    if (limit === undefined) for (const waiter of slots.waiting) waiter.settle(this.#use(slots));
    else if (slots.limit !== limit) this.#changeLimit(slots, limit);
    this.#take(slots);
  }

  /** Lets no further call run: those that wait are cancelled, and other replicas get the slots that no call uses. */
  stop(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    for (const waiter of [...this.#waiting.values()]) waiter.settle(cancelled("shutting_down"));
    for (const slots of this.#owners.values()) this.#giveBack(slots);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    this.#isDisposed = true;
    this.#subscription[Symbol.dispose]();
    clearInterval(this.#timer);
    await this.#background.settled();
    const { database, bus } = this.#dependencies;
    if (this.#owners.size === 0 || !this.#isShared) return;
    await giveAllSlotsBack(database.db, bus.replicaId).catch(this.#dependencies.onError);
  }

  #slotsOf({ owner, limit }: SlotRequest): OwnerSlots {
    const name = nameOf(owner);
    const known = this.#owners.get(name);
    if (known !== undefined) {
      if (known.limit !== limit) this.#changeLimit(known, limit);
      return known;
    }
    const fresh = {
      owner,
      limit,
      held: this.#isShared ? 0 : limit,
      isOver: false,
      used: 0,
      waiting: new Set<Waiter>(),
      taking: undefined,
      usedAt: 0,
      wantedUntil: 0,
    };
    this.#owners.set(name, fresh);
    this.#timer ??= setInterval(() => this.#background.run(() => this.#renew()), RENEW_MS);
    return fresh;
  }

  /** The slots of a higher limit are more than there are, so the replicas divide them again. */
  #changeLimit(slots: OwnerSlots, limit: number): void {
    const isLower = limit < slots.limit;
    slots.limit = limit;
    // This process has all of them. Calls that run go on.
    if (!this.#isShared) {
      slots.held = limit;
      return;
    }
    if (!isLower) return;
    slots.isOver = true;
    this.#giveBack(slots);
  }

  /** Returns the limit of a tenant: the lower one of its policy's and the server's. */
  limitOf(policy: LimitedTenant["policy"], name: Limit): number {
    const configured = [policy.limits?.[name], this.#dependencies.limits[name]].filter((value) => value !== undefined);
    return configured.length === 0 ? LIMITS[name].default : Math.min(...configured);
  }

  #use(slots: OwnerSlots): ClusterSlot {
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
        if (isOthers) this.#giveBack(slots);
        else this.#serve(slots);
      },
    };
  }

  /** Gives free slots to calls that wait, in order. */
  #serve(slots: OwnerSlots): void {
    if (slots.isOver) return;
    for (const waiter of slots.waiting) {
      if (slots.used >= slots.held) return;
      waiter.settle(this.#use(slots));
    }
  }

  /** Takes slots for the calls that wait, one request of an owner at a time. */
  #take(slots: OwnerSlots): void {
    if (this.#isClosed || slots.waiting.size === 0) return;
    // This process has them all.
    if (!this.#isShared) {
      this.#serve(slots);
      return;
    }
    slots.taking ??= this.#background
      .run(async () => {
        const { database, bus } = this.#dependencies;
        const { owner, limit, used } = slots;
        const request = { owner, replicaId: bus.replicaId, limit, used, needed: used + slots.waiting.size };
        const { held, others, isOver } = await takeSlots(database.db, request);
        slots.held = held;
        slots.isOver = isOver || slots.limit < limit;
        this.#serve(slots);
        if (slots.waiting.size > 0 && others > 0)
          await bus.publish({ type: "slots", tenant: nameOf(owner), isFree: false });
      })
      .finally(() => {
        slots.taking = undefined;
        if (slots.waiting.size > 0) this.#retryLater();
        if (this.#isClosed || slots.isOver) this.#giveBack(slots);
      });
  }

  #retryLater(): void {
    if (this.#isClosed) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      for (const slots of this.#owners.values()) {
        // The limit of a tenant comes with its next call; a key may have none.
        if (slots.owner.kind === "key") void this.#background.run(() => this.applyKeyLimit(slots.owner.id));
        this.#take(slots);
      }
    }, RETRY_MS);
  }

  /** Gives back what no call uses, because another replica needs it. */
  #giveBack(slots: OwnerSlots): void {
    if (!this.#isShared || this.#isDisposed || slots.taking !== undefined || slots.held <= slots.used) return;
    slots.held = slots.used;
    slots.taking = this.#background
      .run(async () => {
        const { database, bus } = this.#dependencies;
        await giveSlotsBack(database.db, slots.owner, bus.replicaId, slots.held);
        await bus.publish({ type: "slots", tenant: nameOf(slots.owner), isFree: true });
      })
      .finally(() => {
        slots.taking = undefined;
        // Later, so that the other replica is faster.
        if (slots.waiting.size > 0) this.#retryLater();
        // Those that were released meanwhile.
        if (this.#isClosed || slots.isOver) this.#giveBack(slots);
      });
  }

  /** Gives all slots of an owner back. A call that comes meanwhile takes new ones afterwards. */
  #forget(name: string, slots: OwnerSlots): void {
    const { database, bus } = this.#dependencies;
    if (!this.#isShared) return void this.#owners.delete(name);
    slots.held = 0;
    slots.taking = this.#background
      .run(() => giveSlotsBack(database.db, slots.owner, bus.replicaId, 0))
      .finally(() => {
        slots.taking = undefined;
        if (slots.waiting.size > 0) this.#take(slots);
        else this.#owners.delete(name);
      });
  }

  async #renew(): Promise<void> {
    const { database, bus } = this.#dependencies;
    const now = performance.now();
    for (const [name, slots] of this.#owners) {
      const isIdle = slots.used === 0 && slots.waiting.size === 0 && slots.taking === undefined;
      if (isIdle && now - slots.usedAt >= IDLE_MS) this.#forget(name, slots);
    }
    if (!this.#isShared) return;
    const kept = new Set((await renewSlots(database.db, bus.replicaId)).map(nameOf));
    // What others may have taken while this process was frozen or without its database. Calls that run go on, and the next ones take new slots.
    for (const [name, slots] of this.#owners) if (!kept.has(name) && slots.taking === undefined) slots.held = 0;
    await deleteEndedSlots(database.db);
  }
}

const FREE: ClusterSlot = { release: () => {} };

const overloaded = (why: string): ToolError =>
  new ToolError("OVERLOADED", `The tenant runs as many calls as it may over all replicas: ${why}`, {
    details: { retryAfterMs: RETRY_AFTER_MS },
  });

/** Not OVERLOADED, because the server and the tenant have room: the key has used up what it may use at a time. */
const keyError = ({ owner, limit, queueMs }: SlotRequest, why: string): ToolError =>
  new ToolError(
    "QUOTA_EXCEEDED",
    `The key ${JSON.stringify(owner.id)} runs as many calls at the same time as it may, ${limit} (limits.maxConcurrentCalls of the key), and ${why}`,
    {
      details: {
        reason: TOO_MANY_CALLS,
        callerId: owner.id,
        limit: "maxConcurrentCalls",
        allowed: limit,
        queueMs,
        retryAfterMs: RETRY_AFTER_MS,
      },
    },
  );

function fullError(request: SlotRequest): ToolError {
  const { owner, maxQueued } = request;
  return owner.kind === "tenant"
    ? overloaded(`at most ${maxQueued} calls of this tenant may wait (limits.maxQueuedCalls)`)
    : keyError(request, `at most ${maxQueued} of its calls may wait (limits.maxQueuedCalls)`);
}

function lateError(request: SlotRequest): ToolError {
  const { owner, queueMs } = request;
  return owner.kind === "tenant"
    ? overloaded(`no slot of this tenant was free within ${queueMs} ms (limits.queueMs)`)
    : keyError(request, `none of them ended within ${queueMs} ms (limits.queueMs)`);
}

const cancelled = (reason: string): ToolError =>
  new ToolError("CANCELLED", "The call was cancelled before it ran", { details: { reason } });
