// Denies calls of tenants that are suspended or being deleted, before anything else is done for a call. All routers of a Glovebox share one
// object, which also carries the quotas: call-admission.ts checks those afterwards, with quotas/tenant-quotas.ts.
import { type ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { TenantQuotas } from "./quotas/tenant-quotas.ts";

/** `failed`: a deletion that did not finish. Calls are denied until it is repeated, or the tenant is resumed. */
export type TenantState = "suspended" | "deleting" | "failed";

export class TenantStates {
  readonly quotas: TenantQuotas;
  readonly #states = new Map<string, TenantState>();

  constructor(quotas: TenantQuotas) {
    this.quotas = quotas;
  }

  stateOf(tenantId: string): TenantState | undefined {
    return this.#states.get(tenantId);
  }

  set(tenantId: string, state: TenantState | undefined): void {
    if (state === undefined) this.#states.delete(tenantId);
    else this.#states.set(tenantId, state);
  }

  /**
   * Checks that a tenant can start a call.
   * @param isNested whether a running call makes it; such a call can still start after its tenant was suspended
   * @throws {ToolError} TOOL_UNAVAILABLE with `details.reason`
   */
  check(tenantId: string, isNested: boolean): void {
    if (this.#states.size === 0) return;
    const state = this.#states.get(tenantId);
    if (state === undefined || (state === "suspended" && isNested)) return;
    throw denied(state);
  }

  /**
   * Checks that a tool or session can be added for a tenant.
   * @throws {ToolError} TOOL_UNAVAILABLE with `details.reason` while the tenant is being deleted
   */
  checkAdding(tenantId: string): void {
    const state = this.#states.get(tenantId);
    if (state === "deleting" || state === "failed") throw denied(state);
  }
}

function denied(state: TenantState): ToolError {
  return state === "suspended"
    ? unavailable("tenant_suspended", "This tenant is suspended: its calls are denied until it is resumed")
    : unavailable("tenant_deleted", "This tenant is being deleted: its calls are denied");
}
