// The policy of a tenant, as the operator sets it and the database stores it, and the options of the library that follow from it.
import * as z from "zod";
import {
  checkTenantOptions,
  LIMITS,
  type LimitName,
  type Secrets,
  type TenantOptions,
  ToolError,
} from "../../host/index.ts";

const limitFields = Object.fromEntries(
  Object.entries(LIMITS).map(([name, { min, max }]) => [name, z.number().min(min).max(max).optional()]),
) as { readonly [Name in LimitName]: z.ZodOptional<z.ZodNumber> };
export const LimitsSchema = z.strictObject(limitFields);

const PeriodsSchema = z.strictObject({
  minute: z.int().min(0).optional(),
  hour: z.int().min(0).optional(),
  day: z.int().min(0).optional(),
  month: z.int().min(0).optional(),
});

const RuleSchema = z.union([
  z.string().min(1).max(512),
  z.strictObject({
    to: z.string().min(1).max(512),
    methods: z.array(z.string().min(1).max(32)).max(32).optional(),
    ports: z.array(z.int().min(1).max(65_535)).max(100).optional(),
    addresses: z.array(z.string().min(1).max(64)).max(100).optional(),
  }),
]);

/** Capabilities of the library that a tool of a tenant can be granted. */
const CAPABILITIES = ["fetch", "kv", "secrets", "tools", "elicit", "sample", "roots"] as const;

const DAY_LIMIT = 3_650;

export const TenantPolicySchema = z.strictObject({
  /** Limits of the tenant's calls. The lower one of these and the server's applies. */
  limits: LimitsSchema.optional(),
  /** Hosts that the tenant's tools may send requests to. Default: none. */
  egress: z.strictObject({ allow: z.array(RuleSchema).max(1_000) }).default({ allow: [] }),
  /** Capabilities that tools of the tenant may request. A deployment that requests another one fails. */
  capabilities: z
    .array(z.enum(CAPABILITIES))
    .max(CAPABILITIES.length)
    .default([...CAPABILITIES]),
  rateLimit: z
    .strictObject({
      calls: z.int().min(1).max(1_000_000),
      per: z.enum(["second", "minute"]),
      burst: z.int().min(1).max(1_000_000).optional(),
    })
    .optional(),
  quotas: z
    .strictObject({
      calls: PeriodsSchema.optional(),
      cpuMs: PeriodsSchema.optional(),
      egressBytes: PeriodsSchema.optional(),
    })
    .optional(),
  /** Most tools, and most versions of one tool. */
  maxTools: z.int().min(0).max(1_000_000).default(1_000),
  maxVersions: z.int().min(1).max(100_000).default(1_000),
  /** Most bytes of code that all versions of the tenant's tools take. */
  maxStoredBytes: z
    .int()
    .min(0)
    .default(1024 * 1024 * 1024),
  /** Share of the machine's CPU time relative to other busy tenants. */
  weight: z.number().min(0.01).max(100).optional(),
  retention: z
    .strictObject({
      /** Days after which finished calls are deleted. */
      callDays: z.int().min(1).max(DAY_LIMIT).default(30),
      /** Whether inputs and outputs are kept, without the secrets in them. */
      keepContent: z.boolean().default(true),
    })
    .prefault({}),
});
export type TenantPolicy = z.infer<typeof TenantPolicySchema>;

/** Returns the options of the library for a tenant. */
export function toTenantOptions(
  { limits, egress, rateLimit, quotas, weight }: TenantPolicy,
  secrets: Secrets,
): TenantOptions {
  return { limits, egress, rateLimit, quotas, weight, secrets };
}

/**
 * Checks what the schema of a policy cannot, such as the form of hosts.
 * @throws {ToolError} PARAM_INVALID, with paths that begin with `policy`
 */
export function checkPolicy(policy: TenantPolicy, secrets: Secrets = {}): void {
  try {
    checkTenantOptions(toTenantOptions(policy, secrets));
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    throw new ToolError("PARAM_INVALID", thrown.message.replace(/^options/, "policy"), { cause: thrown });
  }
}
