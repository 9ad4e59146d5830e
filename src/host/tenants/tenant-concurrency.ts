// Limits the number of calls of a tenant that run at the same time, over all its batches. Waiting calls get slots in turn, batch by batch.

/** The slot of a running call. Release it once, when the call has its result. */
export interface ConcurrencySlot {
  release(): void;
}

/** A request for a slot. */
export interface SlotRequest {
  readonly tenantId: string;
  /** Identity of the batch. Calls of one batch wait in order, and batches take turns. */
  readonly batch: object;
  /** The slot of the call that made this one, if any. */
  readonly parent: ConcurrencySlot | undefined;
  /** Read only if the call has to wait. */
  readonly signal: AbortSignal | undefined;
}

interface Waiter {
  readonly request: SlotRequest;
  readonly resolve: (slot: ConcurrencySlot | undefined) => void;
}

interface Tenant {
  running: number;
  /** Batches in the order of their turns. A batch that got a slot moves to the end. */
  readonly waiting: Map<object, Waiter[]>;
}

class CallSlot implements ConcurrencySlot {
  /**
   * Use of this slot by a nested call. A call that waits for a nested call computes little, so one nested call at a time can use its slot.
   * Without that, a tool that calls others would wait for its own slot forever.
   */
  nestedUse: "free" | "taken" | "gone" = "free";
  readonly #leave: () => void;

  constructor(leave: () => void) {
    this.#leave = leave;
  }

  release(): void {
    // Code that continues after its call has ended has no slot.
    this.nestedUse = "gone";
    this.#leave();
  }
}

export class TenantConcurrencyLimiter {
  readonly #perTenant: number;
  readonly #tenants = new Map<string, Tenant>();

  constructor(perTenant: number) {
    this.#perTenant = perTenant;
  }

  /** Returns a slot, or undefined if the signal aborts first. */
  acquire(request: SlotRequest): ConcurrencySlot | Promise<ConcurrencySlot | undefined> {
    const { tenantId, batch, parent } = request;
    const tenant = this.#tenants.get(tenantId) ?? { running: 0, waiting: new Map<object, Waiter[]>() };
    this.#tenants.set(tenantId, tenant);
    if (tenant.running < this.#perTenant) return this.#enter(tenantId, tenant);
    if (parent instanceof CallSlot && parent.nestedUse === "free") return this.#lend(tenantId, tenant, parent);
    const { signal } = request;
    return new Promise((settle) => {
      const leave = (): void => {
        const others = (tenant.waiting.get(batch) ?? []).filter((other) => other !== waiter);
        if (others.length === 0) tenant.waiting.delete(batch);
        else tenant.waiting.set(batch, others);
        settle(undefined);
      };
      const resolve = (slot: ConcurrencySlot | undefined): void => {
        signal?.removeEventListener("abort", leave);
        settle(slot);
      };
      const waiter: Waiter = { request, resolve };
      const waiters = tenant.waiting.get(batch);
      if (waiters === undefined) tenant.waiting.set(batch, [waiter]);
      else waiters.push(waiter);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  #enter(tenantId: string, tenant: Tenant): ConcurrencySlot {
    tenant.running += 1;
    return new CallSlot(() => {
      tenant.running -= 1;
      this.#next(tenant)?.resolve(this.#enter(tenantId, tenant));
      if (tenant.running === 0) this.#tenants.delete(tenantId);
    });
  }

  #lend(tenantId: string, tenant: Tenant, parent: CallSlot): ConcurrencySlot {
    parent.nestedUse = "taken";
    return new CallSlot(() => {
      if (parent.nestedUse === "gone") return;
      parent.nestedUse = "free";
      this.#next(tenant, parent)?.resolve(this.#lend(tenantId, tenant, parent));
    });
  }

  /** Removes and returns the next waiting call; with a `parent`, the next one of those that the call in that slot made. */
  #next(tenant: Tenant, parent?: CallSlot): Waiter | undefined {
    for (const [batch, waiters] of tenant.waiting) {
      const index = parent === undefined ? 0 : waiters.findIndex(({ request }) => request.parent === parent);
      const [waiter] = index < 0 ? [] : waiters.splice(index, 1);
      if (waiter === undefined) continue;
      tenant.waiting.delete(batch);
      if (waiters.length > 0) tenant.waiting.set(batch, waiters);
      return waiter;
    }
    return undefined;
  }
}
