// The policy of a tenant, as the operator sets it and the database stores it, and the options of the library that follow from it.
import * as z from "zod";
import { PoolSchema } from "../../../host/fleet/protocol/pool-name.ts";
import { checkTenantOptions, type Secrets, type TenantOptions, ToolError } from "../../../host/index.ts";
import { GRANTABLE_CAPABILITY_NAMES } from "../../../sandbox/contract/capability-names.ts";
import { LimitsObjectSchema } from "../../../sandbox/contract/partial-limits.ts";

/** Rounds the limits of a row down. Earlier releases have stored fractions, which the library rejects. */
export const toWholeLimits = (stored: unknown): unknown =>
  typeof stored === "object" && stored !== null
    ? Object.fromEntries(
        Object.entries(stored).map(([name, limit]) => [name, typeof limit === "number" ? Math.floor(limit) : limit]),
      )
    : stored;

/** Requests per period, and how many may come at once (default: `calls`). */
export const RateLimitSchema = z.strictObject({
  calls: z.int().min(1).max(1_000_000),
  per: z.enum(["second", "minute"]),
  burst: z.int().min(1).max(1_000_000).optional(),
});

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

const DAY_LIMIT = 3_650;

const ToolPatternSchema = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{0,128}\*?$/, { error: "Expected a tool's name, or its beginning and *" })
  .min(1);

export const TenantPolicySchema = z.strictObject({
  /** Limits of the tenant's calls. The lower one of these and the server's applies. */
  limits: LimitsObjectSchema.optional(),
  /** Hosts that the tenant's tools may send requests to. Default: none. */
  egress: z.strictObject({ allow: z.array(RuleSchema).max(1_000) }).default({ allow: [] }),
  /** Capabilities that tools of the tenant may request. A deployment that requests another one fails. */
  capabilities: z
    .array(z.enum(GRANTABLE_CAPABILITY_NAMES))
    .max(GRANTABLE_CAPABILITY_NAMES.length)
    .default([...GRANTABLE_CAPABILITY_NAMES]),
  rateLimit: RateLimitSchema.optional(),
  quotas: z
    .strictObject({
      calls: PeriodsSchema.optional(),
      cpuMs: PeriodsSchema.optional(),
      egressBytes: PeriodsSchema.optional(),
    })
    .optional(),
  /** Maximum number of tools, and of versions of one tool. */
  maxTools: z.int().min(0).max(1_000_000).default(1_000),
  maxVersions: z.int().min(1).max(100_000).default(1_000),
  /**
   * Maximum number of bytes that the tenant stores: code of versions, values of its tools, inputs, outputs, logs and
   * recordings of calls, and journals of runs.
   */
  maxStoredBytes: z
    .int()
    .min(0)
    .default(1024 * 1024 * 1024),
  // Not stored unless it is set, so that a release that does not know it can read the policy.
  maxAsyncCalls: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe("Maximum number of calls that wait in the queue, also of schedules and triggers. Default: 10,000"),
  /** Share of the machine's CPU time relative to other busy tenants. */
  weight: z.number().min(0.01).max(100).optional(),
  /** Pools of executors that may run the tenant's calls, for a server with executors. Default: the pool "default". */
  pools: z.array(PoolSchema).min(1).max(100).optional(),
  /** Which calls wait until a person has approved them. */
  approvals: z
    .strictObject({
      /** Names of tools, or their beginnings followed by `*`. `*` alone stands for all tools. */
      tools: z.array(ToolPatternSchema).max(1_000).default([]),
      /** Whether calls of tools with `annotations.destructiveHint: true` wait. */
      destructive: z.boolean().default(true),
      /** Minutes after which a call that no one has approved fails. */
      expiresInMinutes: z.int().min(1).max(43_200).default(1_440),
    })
    .prefault({}),
  /** Which calls are recorded, so that they can be replayed. Default: none. Needs `retention.keepContent`. */
  recording: z
    .strictObject({
      /** Names of tools, or their beginnings followed by `*`. */
      tools: z.array(ToolPatternSchema).max(1_000).default(["*"]),
      /** Share of the calls that is recorded, from 0 to 1. */
      rate: z.number().min(0).max(1).default(1),
      /** Largest recording in bytes. A larger one is not kept. */
      maxBytes: z
        .int()
        .min(1_024)
        .max(16 * 1024 * 1024)
        .default(1024 * 1024),
      /** Whether values that look like secrets or personal credentials are replaced in arguments, answers and outputs. */
      redact: z.boolean().default(false),
    })
    .optional(),
  /** Limits of the tenant's durable runs. */
  runs: z
    .strictObject({
      /** Maximum number of runs that have not ended. */
      maxOpen: z.int().min(1).max(1_000_000).default(1_000),
      /** Largest journal of a run in UTF-16 code units. A run that exceeds it fails. */
      maxJournalLength: z
        .int()
        .min(1_024)
        .max(256 * 1024 * 1024)
        .default(8 * 1024 * 1024),
      /** Minutes after which a run that has not ended fails. */
      lifetimeMinutes: z.int().min(1).max(527_040).default(43_200),
    })
    .prefault({}),
  retention: z
    .strictObject({
      /** Days after which finished calls are deleted. */
      callDays: z.int().min(1).max(DAY_LIMIT).default(30),
      /** Whether inputs and outputs are kept, without the secrets in them. */
      keepContent: z.boolean().default(true),
    })
    .prefault({}),
});
/** Default of `maxAsyncCalls`. */
const ASYNC_CALLS = 10_000;

/** Returns the most calls of a tenant that wait in the queue. */
export const maxAsyncCallsOf = ({ maxAsyncCalls = ASYNC_CALLS }: Pick<ServerTenantPolicy, "maxAsyncCalls">): number =>
  maxAsyncCalls;
export type ServerTenantPolicy = z.infer<typeof TenantPolicySchema>;

/** Returns the options of the library for a tenant. */
export function toTenantOptions(
  { limits, egress, rateLimit, quotas, weight, pools }: ServerTenantPolicy,
  secrets: Secrets,
): TenantOptions {
  return { limits, egress, rateLimit, quotas, weight, pools, secrets };
}

/**
 * Checks what the schema of a policy cannot, such as the form of hosts.
 * @throws {ToolError} PARAM_INVALID, with paths that begin with `policy`
 */
export function checkPolicy(policy: ServerTenantPolicy, secrets: Secrets = {}): void {
  if (policy.recording !== undefined && !policy.retention.keepContent) {
    const message = "policy.recording: Needs retention.keepContent: true, because a recording has inputs and outputs";
    throw new ToolError("PARAM_INVALID", message);
  }
  try {
    checkTenantOptions(toTenantOptions(policy, secrets));
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    throw new ToolError("PARAM_INVALID", thrown.message.replace(/^options/, "policy"), { cause: thrown });
  }
}
