// Resolves the tenant that a public method concerns, by the rule that `createGlovebox({ tenancy })` selects. Every method that concerns a tool,
// a call, a session or a stored value uses it, so that a missing or unexpected tenant is an error and never a default.
import { ToolError } from "../../sandbox/contract/errors.ts";

export const TENANCIES = ["single", "multi"] as const;
/** Whether a Glovebox serves one tenant or several. */
export type TenancyMode = (typeof TENANCIES)[number];

/** The one tenant of `tenancy: "single"`, as capabilities, hooks, flags and stores see it. No caller passes it. */
const SINGLE_TENANT = "default";

/** The owner of a tool: one tenant, or all tenants with `scope: "global"`. */
export interface ToolOwner {
  readonly tenantId?: string | undefined;
  readonly scope?: "global" | undefined;
}

/** The tenants that an overview covers: one tenant, or all tenants with `scope: "all"`. */
export interface TenantFilter {
  readonly tenantId?: string | undefined;
  readonly scope?: "all" | undefined;
}

export class Tenancy {
  readonly mode: TenancyMode;

  constructor(mode: TenancyMode = "single") {
    this.mode = mode;
  }

  /**
   * Returns the tenant that a call or a method concerns.
   * @param where path of the value in the caller's arguments, for the error
   * @throws {ToolError} PARAM_INVALID if the tenant is missing with `tenancy: "multi"`, or given with `tenancy: "single"`
   */
  tenantOf(tenantId: string | undefined, where = "options.tenantId"): string {
    if (this.mode === "single") {
      if (tenantId !== undefined) throw unexpected(where);
      return SINGLE_TENANT;
    }
    if (tenantId === undefined) throw missing(where, "pass the tenant");
    return tenantId;
  }

  /** Returns the only tenant, or that which owns a tool; undefined for a tool of several tenants. @param owner as {@link ownerOf} returns it */
  tenantOfTool(owner: string | undefined): string | undefined {
    return this.mode === "single" ? SINGLE_TENANT : owner;
  }

  /**
   * Returns the tenant that a tool belongs to; undefined for a tool of all tenants. With `tenancy: "single"` every tool is one of those.
   * @throws {ToolError} PARAM_INVALID as {@link tenantOf}; also if both `tenantId` and `scope` are given
   */
  ownerOf({ tenantId, scope }: ToolOwner, where = "options"): string | undefined {
    return this.#oneOf(tenantId, scope, where, 'pass the tenant, or scope: "global" for all tenants');
  }

  /**
   * Returns the tenant that an overview covers; undefined for all tenants.
   * @throws {ToolError} PARAM_INVALID as {@link tenantOf}; also if both `tenantId` and `scope` are given
   */
  filterOf({ tenantId, scope }: TenantFilter, where = "options"): string | undefined {
    return this.#oneOf(tenantId, scope, where, 'pass the tenant, or scope: "all" for all tenants');
  }

  /** Returns the option that names a resolved tenant to a public method of the same Glovebox. */
  optionOf(tenantId: string): { readonly tenantId?: string } {
    return this.mode === "single" ? {} : { tenantId };
  }

  #oneOf(tenantId: string | undefined, scope: string | undefined, where: string, rule: string): string | undefined {
    if (this.mode === "single" && tenantId !== undefined) throw unexpected(`${where}.tenantId`);
    if (tenantId !== undefined && scope !== undefined) {
      const message = `${where}: Expected one of tenantId and scope: ${JSON.stringify(scope)}, got both`;
      throw new ToolError("PARAM_INVALID", message);
    }
    if (this.mode === "multi" && tenantId === undefined && scope === undefined) {
      throw missing(`${where}.tenantId`, rule);
    }
    return tenantId;
  }
}

const unexpected = (where: string): ToolError =>
  new ToolError(
    "PARAM_INVALID",
    `${where}: This Glovebox has one tenant (tenancy: "single"), so no tenant can be passed; several need tenancy: "multi"`,
  );
const missing = (where: string, rule: string): ToolError =>
  new ToolError("PARAM_INVALID", `${where}: Missing; this Glovebox has tenancy: "multi": ${rule}`);

/** Returns the tenancy of a router that a caller passed; undefined for another object, which resolves tenants itself. */
export function tenancyOf(router: object): Tenancy | undefined {
  const { tenancy } = router as { readonly tenancy?: unknown };
  return tenancy instanceof Tenancy ? tenancy : undefined;
}
