// How many calls of a tenant run at one time, over all its batches; those that wait for a place get one in turn, batch by batch.

/** A place that a call runs in. Release it once, when the call has its result. */
export interface ConcurrencySlot {
  release(): void;
}

/** Who asks for a place. */
export interface PlaceClaim {
  readonly tenantId: string;
  /** Calls of one batch wait behind each other, batches beside each other. */
  readonly batch: object;
  /** The place of the call that this one was made in, if it was made in one. */
  readonly parent: ConcurrencySlot | undefined;
  /** Read only if the call has to wait. */
  readonly signal: AbortSignal | undefined;
}

interface Waiter {
  readonly claim: PlaceClaim;
  readonly resolve: (place: ConcurrencySlot | undefined) => void;
}

interface Tenant {
  running: number;
  /** In the order in which batches are next: whoever has got a place goes to the end. */
  readonly waiting: Map<object, Waiter[]>;
}

class OwnPlace implements ConcurrencySlot {
  /**
   * A call that waits for one nested in it computes little meanwhile, so one of those at a time may run in its place. Without that a
   * tool that invokes others would wait for its own place, and both for ever.
   */
  seat: "free" | "taken" | "gone" = "free";
  readonly #leave: () => void;

  constructor(leave: () => void) {
    this.#leave = leave;
  }

  release(): void {
    // What goes on after its call has ended is nobody's place.
    this.seat = "gone";
    this.#leave();
  }
}

export class TenantConcurrencyLimiter {
  readonly #perTenant: number;
  readonly #tenants = new Map<string, Tenant>();

  constructor(perTenant: number) {
    this.#perTenant = perTenant;
  }

  /** Undefined when the claim's signal has aborted first. */
  acquire(claim: PlaceClaim): ConcurrencySlot | Promise<ConcurrencySlot | undefined> {
    const { tenantId, batch, parent } = claim;
    const tenant = this.#tenants.get(tenantId) ?? { running: 0, waiting: new Map<object, Waiter[]>() };
    this.#tenants.set(tenantId, tenant);
    if (tenant.running < this.#perTenant) return this.#enter(tenantId, tenant);
    if (parent instanceof OwnPlace && parent.seat === "free") return this.#lend(tenantId, tenant, parent);
    const { signal } = claim;
    return new Promise((settle) => {
      const leave = (): void => {
        const others = (tenant.waiting.get(batch) ?? []).filter((other) => other !== waiter);
        if (others.length === 0) tenant.waiting.delete(batch);
        else tenant.waiting.set(batch, others);
        settle(undefined);
      };
      const resolve = (place: ConcurrencySlot | undefined): void => {
        signal?.removeEventListener("abort", leave);
        settle(place);
      };
      const waiter: Waiter = { claim, resolve };
      const waiters = tenant.waiting.get(batch);
      if (waiters === undefined) tenant.waiting.set(batch, [waiter]);
      else waiters.push(waiter);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  #enter(tenantId: string, tenant: Tenant): ConcurrencySlot {
    tenant.running += 1;
    return new OwnPlace(() => {
      tenant.running -= 1;
      this.#next(tenant)?.resolve(this.#enter(tenantId, tenant));
      if (tenant.running === 0) this.#tenants.delete(tenantId);
    });
  }

  #lend(tenantId: string, tenant: Tenant, parent: OwnPlace): ConcurrencySlot {
    parent.seat = "taken";
    return new OwnPlace(() => {
      if (parent.seat === "gone") return;
      parent.seat = "free";
      this.#next(tenant, parent)?.resolve(this.#lend(tenantId, tenant, parent));
    });
  }

  /** Takes out whoever is next; with a `parent`, of those that were made in that place. */
  #next(tenant: Tenant, parent?: OwnPlace): Waiter | undefined {
    for (const [batch, waiters] of tenant.waiting) {
      const index = parent === undefined ? 0 : waiters.findIndex(({ claim }) => claim.parent === parent);
      const [waiter] = index < 0 ? [] : waiters.splice(index, 1);
      if (waiter === undefined) continue;
      tenant.waiting.delete(batch);
      if (waiters.length > 0) tenant.waiting.set(batch, waiters);
      return waiter;
    }
    return undefined;
  }
}
