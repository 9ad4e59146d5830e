// Tracks work for a tenant that is not a call: tools that are built, sessions that are opened, exports that are read. A deletion ends it.
import { unavailable } from "../../sandbox/contract/errors.ts";

/** Dispose it when the work is over. */
export interface WorkHandle extends Disposable {
  /** @throws {ToolError} TOOL_UNAVAILABLE if the tenant has been deleted since the work began */
  check(): void;
}

interface Work {
  readonly over: Promise<void>;
  readonly isAwaited: boolean;
  isCancelled: boolean;
}

export class TenantWork {
  readonly #tenants = new Map<string, Set<Work>>();

  /** @param isAwaited a deletion waits for it: it ends by itself, in bounded time */
  begin(tenantId: string, isAwaited: boolean): WorkHandle {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const work: Work = { over, isAwaited, isCancelled: false };
    const all = this.#tenants.get(tenantId) ?? new Set<Work>();
    this.#tenants.set(tenantId, all.add(work));
    return {
      check: () => {
        if (work.isCancelled) throw unavailable("tenant_deleted", "This tenant was deleted meanwhile");
      },
      [Symbol.dispose]: () => {
        resolve();
        all.delete(work);
        if (all.size === 0 && this.#tenants.get(tenantId) === all) this.#tenants.delete(tenantId);
      },
    };
  }

  /** Ends a tenant's work at its next check; resolves when what is awaited is over. */
  async cancel(tenantId: string): Promise<void> {
    const all = [...(this.#tenants.get(tenantId) ?? [])];
    for (const work of all) work.isCancelled = true;
    await Promise.all(all.filter(({ isAwaited }) => isAwaited).map(({ over }) => over));
  }
}
