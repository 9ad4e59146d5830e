// The tenancy options, which a Glovebox and a separate ToolRouter share.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type TenantCacheLimits, TenantCacheSchema } from "./policy-cache.ts";
import { TENANCIES, type TenancyMode } from "./tenancy.ts";
import { type Tenants, TenantsSchema } from "./tenant-policies.ts";

export const tenancyFields = {
  tenancy: z.enum(TENANCIES).default("single"),
  tenants: TenantsSchema.default({}),
  tenantCache: TenantCacheSchema.optional(),
};

interface TenancyOptions {
  readonly tenancy: TenancyMode;
  readonly tenants: Tenants;
  readonly tenantCache?: TenantCacheLimits | undefined;
}

/** @throws {ToolError} PARAM_INVALID for an option that would have no effect */
export function checkTenancyOptions({ tenancy, tenants, tenantCache }: TenancyOptions): void {
  const isFunction = typeof tenants === "function";
  if (tenancy === "single" && (isFunction || Object.keys(tenants).length > 0)) {
    throw new ToolError(
      "PARAM_INVALID",
      'options.tenants: Needs tenancy: "multi"; a single tenant has the options of all',
    );
  }
  if (tenantCache !== undefined && !isFunction) {
    throw new ToolError("PARAM_INVALID", "options.tenantCache: Needs options.tenants to be a function");
  }
}
