// Tracks work for a tenant other than calls: builds of tools, opening of sessions, exports. Deleting the tenant ends it.
import { unavailable } from "../../sandbox/contract/errors.ts";

/** Tracked work. Dispose it when the work has ended. */
export interface WorkHandle extends Disposable {
  /** @throws {ToolError} TOOL_UNAVAILABLE if the tenant was deleted after the work began */
  check(): void;
}

interface Work {
  readonly over: Promise<void>;
  readonly isAwaited: boolean;
  isCancelled: boolean;
}

export class TenantWork {
  readonly #tenants = new Map<string, Set<Work>>();

  /** @param isAwaited whether a deletion waits for the work, which then must end by itself in bounded time */
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

  /** Ends a tenant's work at its next check. Resolves when the awaited work has ended. */
  async cancel(tenantId: string): Promise<void> {
    const all = [...(this.#tenants.get(tenantId) ?? [])];
    for (const work of all) work.isCancelled = true;
    await Promise.all(all.filter(({ isAwaited }) => isAwaited).map(({ over }) => over));
  }
}
