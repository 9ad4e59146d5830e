// Applies changes of tenants in every replica: what is kept in memory of a tenant is dropped, and the calls and sessions of a tenant that was
// suspended or is being deleted end.
import type { Glovebox } from "../../host/index.ts";
import type { RequestAuthenticator } from "../auth/authentication.ts";
import type { CallService } from "../calls/call-service.ts";
import type { ClusterSlots } from "../calls/cluster-slots.ts";
import type { Db } from "../database/open-database.ts";
import { findTenant } from "../records/tenants/tenants.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import type { ReplicaRequests } from "../replicas/requests.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";

/**
 * Time in ms for which calls of a suspended tenant are denied in memory: those that were admitted just before. Later ones are denied because
 * of what the database says, also if the message that the tenant is active again is lost.
 */
const HOLD_MS = 10_000;
/** Longest time in ms that a deletion waits for the other replicas. */
const DELETION_MS = 10_000;

export interface TenantChangesDependencies {
  readonly db: Db;
  readonly bus: ReplicaBus;
  readonly requests: ReplicaRequests;
  readonly glovebox: Glovebox;
  readonly authenticator: RequestAuthenticator;
  readonly tools: TenantTools;
  readonly slots: ClusterSlots;
  readonly calls: Pick<CallService, "flush">;
}

export class TenantChanges implements Disposable {
  readonly #dependencies: TenantChangesDependencies;
  readonly #subscription: Disposable;
  /** The latest change of each tenant that is being applied. */
  readonly #latest = new Map<string, Promise<void>>();
  readonly #holds = new Map<string, NodeJS.Timeout>();

  constructor(dependencies: TenantChangesDependencies) {
    this.#dependencies = dependencies;
    this.#subscription = dependencies.bus.subscribe("tenant", async ({ sender, message: { tenant, request } }) => {
      if (request === undefined) await this.#inOrder(tenant, () => this.#apply(tenant));
      else if (sender !== dependencies.bus.replicaId) await this.#erase(tenant, request);
    });
  }

  /**
   * Lets all replicas apply a change of a tenant's row or secrets.
   * @param transaction the change itself: the message is sent if it is committed
   */
  async announce(tenantId: string, transaction: Db): Promise<void> {
    await this.#dependencies.bus.publish({ type: "tenant", tenant: tenantId }, transaction);
  }

  /** Removes what the other replicas have of a tenant whose deletion has begun. Returns the replicas that did not answer in time. */
  async eraseElsewhere(tenantId: string): Promise<readonly string[]> {
    const limits = { timeoutMs: DELETION_MS, until: "all" } as const;
    const { silent } = await this.#dependencies.requests.send({ type: "tenant", tenant: tenantId }, limits);
    return silent;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    for (const timer of this.#holds.values()) clearTimeout(timer);
  }

  /** Runs what concerns a tenant after what came before, so that the last change counts. */
  async #inOrder(tenantId: string, run: () => Promise<void>): Promise<void> {
    const running = (this.#latest.get(tenantId) ?? Promise.resolve()).catch(() => {}).then(run);
    this.#latest.set(tenantId, running);
    try {
      await running;
    } finally {
      if (this.#latest.get(tenantId) === running) this.#latest.delete(tenantId);
    }
  }

  async #apply(tenantId: string): Promise<void> {
    const { db, glovebox, authenticator } = this.#dependencies;
    authenticator.clear();
    glovebox.invalidateTenant(tenantId);
    const tenant = await findTenant(db, tenantId);
    if (tenant?.state === "active") this.#release(tenantId);
    // New calls are denied already. Its work ends with the request to erase it, and says why.
    else if (tenant?.state === "deleting") this.#dependencies.slots.cancelAll(tenantId, "tenant_deleted");
    // Also one that was deleted while this process was frozen.
    else await this.#endWork(tenantId);
  }

  async #endWork(tenantId: string): Promise<void> {
    const { glovebox, slots } = this.#dependencies;
    slots.cancelAll(tenantId, "tenant_suspended");
    clearTimeout(this.#holds.get(tenantId));
    this.#holds.set(
      tenantId,
      setTimeout(() => this.#release(tenantId), HOLD_MS),
    );
    try {
      await glovebox.suspendTenant(tenantId, { calls: "cancel" });
    } catch {
      // It is being deleted in this process, which ends its calls too.
    }
    await glovebox.closeSessions({ tenantId });
  }

  #release(tenantId: string): void {
    const hold = this.#holds.get(tenantId);
    if (hold === undefined) return;
    clearTimeout(hold);
    this.#holds.delete(tenantId);
    try {
      this.#dependencies.glovebox.resumeTenant(tenantId);
    } catch {
      // It is being deleted in this process.
    }
  }

  async #erase(tenantId: string, request: string): Promise<void> {
    const { db, glovebox, tools, calls, requests, authenticator } = this.#dependencies;
    const tenant = await findTenant(db, tenantId);
    // A message can be false; the row is not.
    if (tenant !== undefined && tenant.state !== "deleting") return await requests.answer(request, false);
    authenticator.clear();
    await glovebox.deleteTenant(tenantId);
    tools.forget(tenantId);
    await calls.flush();
    await requests.answer(request, true);
  }
}
