// Decides which tenant a public method is about, by the one rule that `createGlovebox({ tenancy })` selects. Every method that concerns a
// tool, a call, a session or a stored value asks here, so that a missing or unexpected tenant is an error and never a default.
import { ToolError } from "../../sandbox/errors.ts";
import { DEFAULT_TENANT } from "../pipeline/validate.ts";

export const TENANCIES = ["single", "multi"] as const;
/** Whether a Glovebox serves one tenant or several. */
export type TenancyMode = (typeof TENANCIES)[number];

/** Whom a tool is registered for: one tenant, or with `scope: "global"` all tenants. */
export interface ToolOwner {
  readonly tenantId?: string | undefined;
  readonly scope?: "global" | undefined;
}

export class Tenancy {
  readonly mode: TenancyMode | undefined;

  constructor(mode?: TenancyMode) {
    this.mode = mode;
  }

  /**
   * Returns the tenant that a call or a method is about.
   * @param where path of the value in the caller's arguments, for the error
   * @throws {ToolError} PARAM_INVALID if the tenant is missing with `tenancy: "multi"`, or given with `tenancy: "single"`
   */
  tenantOf(tenantId: string | undefined, where = "options.tenantId"): string {
    if (this.mode === "single" && tenantId !== undefined) throw unexpected(where);
    if (this.mode === "multi" && tenantId === undefined) throw missing(where);
    return tenantId ?? DEFAULT_TENANT;
  }

  /**
   * Returns the tenant that a tool is registered for; undefined for a tool of all tenants.
   * @throws {ToolError} PARAM_INVALID as {@link tenantOf}; also if both `tenantId` and `scope` are given
   */
  ownerOf({ tenantId, scope }: ToolOwner, where = "options"): string | undefined {
    if (tenantId !== undefined && scope !== undefined) {
      throw new ToolError("PARAM_INVALID", `${where}: Expected tenantId or scope: "global", got both`);
    }
    if (scope === "global") return undefined;
    if (tenantId === undefined && this.mode === "multi") {
      const rule = 'this Glovebox has tenancy: "multi": pass tenantId, or scope: "global" for a tool of all tenants';
      throw new ToolError("PARAM_INVALID", `${where}.tenantId: Missing; ${rule}`);
    }
    if (tenantId !== undefined && this.mode === "single") throw unexpected(`${where}.tenantId`);
    return tenantId;
  }
}

const unexpected = (where: string): ToolError =>
  new ToolError(
    "PARAM_INVALID",
    `${where}: This Glovebox has one tenant; create it with tenancy: "multi" to pass a tenantId`,
  );
const missing = (where: string): ToolError =>
  new ToolError("PARAM_INVALID", `${where}: Missing; this Glovebox has tenancy: "multi", so the tenant must be named`);
