// What the host states for single tenants: their limits, their weight in the scheduler, their clock.
import * as z from "zod";
import { describeKind, isPlainObject, strictObject } from "../sandbox/contract/plain-object.ts";
import { ToolError } from "../sandbox/errors.ts";
import { type Limits, type PartialLimits, PartialLimitsSchema } from "../sandbox/limits.ts";
import {
  type EgressOptions,
  type EgressPolicy,
  EgressSchema,
  NO_EGRESS,
  type SecretPolicies,
  type Secrets,
  SecretsSchema,
} from "./capabilities/egress-policy.ts";
import type { JsonTextLimits } from "./json-refusals.ts";
import { toOptionProblems } from "./option-problems.ts";
import { resolveLimits } from "./resolve-limits.ts";
import { TenantIdSchema } from "./routing/tenant-scope.ts";
import {
  type QuotaOptions,
  type QuotaPlan,
  type QuotaPolicy,
  QuotasSchema,
  type RateLimitOptions,
  RateLimitSchema,
  toQuotaPlan,
} from "./tenants/quotas/quota-options.ts";
import { ignoreOutcome, isThenable } from "./util/host-callback.ts";

export interface TenantOptions {
  /** For all of the tenant's calls: with the host's own, the lowest wins. */
  readonly limits?: PartialLimits | undefined;
  /** Share of the machine's CPU time relative to other tenants that are busy, 0.01 to 100; 1 unless stated. */
  readonly weight?: number | undefined;
  /** Instead of the host's own `coarseTime`. */
  readonly coarseTime?: boolean | undefined;
  /** Instead of the host's own `egress`. */
  readonly egress?: EgressOptions | undefined;
  /** Instead of the host's own `secrets`. */
  readonly secrets?: Secrets | undefined;
  /** How often the tenant may call. Replaces the host's own `rateLimit`. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** What it may use in a minute, hour, day or month. Each quota replaces the host's own of the same resource and period. */
  readonly quotas?: QuotaOptions | undefined;
}

/**
 * Policies by tenant id, or a function that is called each time a tenant calls. A tenant that is not listed, or for which the function
 * returns undefined, has the defaults. The function must answer at once: a promise, a wrong value or a throw denies the call with INTERNAL,
 * and `onError` receives the cause.
 */
export type Tenants =
  | { readonly [tenantId: string]: TenantOptions }
  | ((tenantId: string) => TenantOptions | undefined);

export const TenantOptionsSchema = strictObject({
  limits: PartialLimitsSchema.optional(),
  weight: z.number().min(0.01).max(100).optional(),
  coarseTime: z.boolean().optional(),
  egress: EgressSchema.optional(),
  secrets: SecretsSchema.optional(),
  rateLimit: RateLimitSchema.optional(),
  quotas: QuotasSchema.optional(),
});
type StatedForTenant = z.infer<typeof TenantOptionsSchema>;

const TenantsRecordSchema = z.record(TenantIdSchema, TenantOptionsSchema);
/** Checked here and parsed when a tenant calls, as the answers of a function are. */
const TenantsByIdSchema = z
  .custom<{ readonly [tenantId: string]: TenantOptions }>()
  .superRefine((value: unknown, context) => {
    const { error } = TenantsRecordSchema.safeParse(value);
    for (const { pointer, message } of error === undefined ? [] : toOptionProblems(TenantsRecordSchema, error))
      context.addIssue({ code: "custom", path: pointer === "" ? [] : [pointer], message, continue: false });
  });
const isLookUp = (value: unknown): value is (tenantId: string) => TenantOptions | undefined =>
  typeof value === "function";

export const TenantsSchema: z.ZodType<Tenants, Tenants> = z.union(
  [TenantsByIdSchema, z.custom<(tenantId: string) => TenantOptions | undefined>(isLookUp)],
  "Expected { [tenantId]: { limits?, weight?, egress?, secrets? … } }, or a function that gives such for a tenant",
);

/** What holds for a tenant for whom nothing else is stated. */
export interface TenantDefaults extends QuotaPolicy {
  readonly coarseTime: boolean;
  readonly egress: EgressPolicy;
  readonly secrets: SecretPolicies;
}
const NO_DEFAULTS: TenantDefaults = { coarseTime: false, egress: NO_EGRESS, secrets: {} };

export interface TenantPolicy {
  readonly stated: PartialLimits;
  /** Resolved for the tenant as a whole: what all its calls together may have. */
  readonly limits: Limits;
  /** Of the arguments of its calls. */
  readonly inputBounds: JsonTextLimits;
  readonly weight: number;
  readonly coarseTime: boolean;
  readonly egress: EgressPolicy;
  readonly secrets: SecretPolicies;
  /** Undefined for a tenant with neither a rate nor a quota. */
  readonly quota: QuotaPlan | undefined;
}

export class TenantPolicies {
  readonly #hostLimits: PartialLimits;
  readonly #defaults: TenantDefaults;
  readonly #lookUp: (tenantId: string) => TenantOptions | undefined;
  /** Of a tenant of whom nothing is stated. */
  readonly default: TenantPolicy;
  /** A function may answer with the same object again and again: it is read once. */
  readonly #known = new WeakMap<TenantOptions, TenantPolicy>();

  constructor(tenants: Tenants, hostLimits: PartialLimits, defaults: TenantDefaults = NO_DEFAULTS) {
    this.#hostLimits = hostLimits;
    this.#defaults = defaults;
    this.default = this.#toPolicy({});
    const byId = typeof tenants === "function" ? undefined : new Map(Object.entries(tenants));
    this.#lookUp = typeof tenants === "function" ? tenants : (tenantId) => byId?.get(tenantId);
  }

  /** @throws {ToolError} INTERNAL when the host's function throws, or returns anything but a policy or undefined */
  of(tenantId: string): TenantPolicy {
    const options = this.#ask(tenantId);
    if (options === undefined) return this.default;
    const known = this.#known.get(options);
    if (known !== undefined) return known;
    const parsed = parsePolicy(options);
    if (!parsed.success) throw refused(parsed.error);
    const policy = this.#toPolicy(parsed.data);
    this.#known.set(options, policy);
    return policy;
  }

  #ask(tenantId: string): TenantOptions | undefined {
    let options: unknown;
    let isPromise: boolean;
    try {
      options = this.#lookUp(tenantId);
      isPromise = isThenable(options);
    } catch (cause) {
      throw refused(cause);
    }
    if (isPromise) ignoreOutcome(() => options);
    if (options === undefined || (!isPromise && isPlainObject(options))) return options;
    throw refused(new TypeError(`options.tenants() returned ${describeKind(options)}: expected a policy or undefined`));
  }

  #toPolicy({ limits = {}, weight = 1, ...stated }: StatedForTenant): TenantPolicy {
    const resolved = resolveLimits([this.#hostLimits, limits], undefined);
    const { inputBytes, jsonDepth, jsonValues } = resolved;
    const inputBounds = { bytes: inputBytes, depth: jsonDepth, values: jsonValues };
    const { coarseTime = this.#defaults.coarseTime } = stated;
    const { egress = this.#defaults.egress, secrets = this.#defaults.secrets } = stated;
    const quota = toQuotaPlan(this.#defaults, stated);
    return { stated: limits, limits: resolved, inputBounds, weight, coarseTime, egress, secrets, quota };
  }
}

/** A policy may be a proxy, whose reading throws. */
function parsePolicy(options: TenantOptions): ReturnType<typeof TenantOptionsSchema.safeParse> {
  try {
    return TenantOptionsSchema.safeParse(options);
  } catch (cause) {
    throw refused(cause);
  }
}

const refused = (cause: unknown): ToolError =>
  new ToolError("INTERNAL", "The tenants option gave no valid policy for this tenant", { cause });
