// Policies of tenants: their limits, their weight in the scheduler, their clock, their egress rules and secrets. Looked up when a tenant calls.
import * as z from "zod";
import type { ToolError } from "../../sandbox/contract/errors.ts";
import { type Limits, type PartialLimits, PartialLimitsSchema } from "../../sandbox/contract/limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import {
  type EgressOptions,
  type EgressPolicy,
  EgressSchema,
  NO_EGRESS,
  type SecretPolicies,
  type Secrets,
  SecretsSchema,
} from "../capabilities/fetch/egress-policy.ts";
import { toOptionIssues } from "../config/option-errors.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { TenantIdSchema } from "../routing/tenant-scope.ts";
import {
  DEFAULT_TENANT_CACHE,
  noPolicy,
  type PendingPolicy,
  PolicyCache,
  type TenantCacheLimits,
} from "./policy-cache.ts";
import {
  type QuotaOptions,
  type QuotaPlan,
  type QuotaPolicy,
  QuotasSchema,
  type RateLimitOptions,
  RateLimitSchema,
  toQuotaPlan,
} from "./quotas/quota-options.ts";

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

/** Returns the options of a tenant, or a promise of them. Undefined stands for a tenant that the host does not know: its calls are denied. */
export type TenantLookup = (tenantId: string) => TenantOptions | undefined | Promise<TenantOptions | undefined>;

/**
 * Policies of tenants, with `tenancy: "multi"`.
 *
 * A record overrides the defaults for the tenants that it lists; every other tenant has the defaults.
 *
 * A function decides about every tenant, and may be asynchronous. It returns `{}` for a tenant that has the defaults. A function that throws,
 * rejects, returns undefined or an invalid policy, or does not answer within `tenantCache.timeoutMs`, denies the call with INTERNAL, and
 * `onError` receives the cause. A policy that it returns at once is used for one call; an object that it returns again is parsed once in
 * `tenantCache.ttlMs`, so a changed policy is a new object. The answer of a promise is cached as `tenantCache`
 * says; calls of one tenant share one pending lookup, each within its own time.
 */
export type Tenants = { readonly [tenantId: string]: TenantOptions } | TenantLookup;

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
    for (const { pointer, message } of error === undefined ? [] : toOptionIssues(TenantsRecordSchema, error))
      context.addIssue({ code: "custom", path: pointer === "" ? [] : [pointer], message, continue: false });
  });
const isLookUp = (value: unknown): value is TenantLookup => typeof value === "function";

export const TenantsSchema: z.ZodType<Tenants, Tenants> = z.union(
  [TenantsByIdSchema, z.custom<TenantLookup>(isLookUp)],
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
  readonly configuredLimits: PartialLimits;
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

export interface TenantPoliciesOptions extends Partial<TenantCacheLimits> {
  /** Receives the failure of a lookup that no call waits for any more. */
  readonly onError?: ((error: ToolError) => unknown) | undefined;
}

/** Dispose it to end pending lookups. */
export class TenantPolicies implements Disposable {
  readonly #hostLimits: PartialLimits;
  readonly #defaults: TenantDefaults;
  readonly #find: (tenantId: string) => TenantPolicy | PendingPolicy<TenantPolicy>;
  readonly #cache: PolicyCache<TenantPolicy> | undefined;
  /** Of a tenant without options of its own. */
  readonly default: TenantPolicy;
  /** A function may return the same object for each call: it is parsed once. */
  #parsed = new WeakMap<TenantOptions, { readonly policy: TenantPolicy; readonly until: number }>();

  constructor(
    tenants: Tenants,
    hostLimits: PartialLimits,
    defaults: TenantDefaults = NO_DEFAULTS,
    { onError, ...limits }: TenantPoliciesOptions = {},
  ) {
    this.#hostLimits = hostLimits;
    this.#defaults = defaults;
    this.default = this.#toPolicy({});
    if (typeof tenants === "function") {
      const parse = (options: unknown): TenantPolicy => this.#parse(options);
      const cache = new PolicyCache({ ...DEFAULT_TENANT_CACHE, ...limits, lookUp: tenants, parse, onError });
      // What a function returns at once may be the same object, changed since.
      this.#find = (tenantId) => cache.get(tenantId, (options) => this.#parseOnce(options, cache.ttlMs));
      this.#cache = cache;
    } else {
      const byId = new Map(Object.entries(tenants));
      this.#find = (tenantId) => {
        const options = byId.get(tenantId);
        return options === undefined ? this.default : this.#parseOnce(options, Number.POSITIVE_INFINITY);
      };
    }
  }

  /**
   * Returns the policy of a tenant; a pending one only while a lookup runs.
   * @throws {ToolError} INTERNAL if the host's function throws, or returns anything but a policy or a promise
   */
  of(tenantId: string): TenantPolicy | PendingPolicy<TenantPolicy> {
    return this.#find(tenantId);
  }

  /** Returns the policy of a tenant when it is known. @throws {ToolError} INTERNAL, as a rejection */
  async whenKnown(tenantId: string, signal?: AbortSignal): Promise<TenantPolicy> {
    const found = this.of(tenantId);
    return "wait" in found ? await found.wait(signal) : found;
  }

  /** Forgets the policy of a tenant. A lookup that is pending answers only the calls that wait for it. */
  invalidate(tenantId: string): void {
    this.#cache?.invalidate(tenantId);
    // Which objects were this tenant's is not known.
    this.#parsed = new WeakMap();
  }

  #parseOnce(options: unknown, ttlMs: number): TenantPolicy {
    const now = performance.now();
    const known = this.#parsed.get(options as TenantOptions);
    if (known !== undefined && known.until > now) return known.policy;
    const policy = this.#parse(options);
    this.#parsed.set(options as TenantOptions, { policy, until: now + ttlMs });
    return policy;
  }

  /** @throws {ToolError} INTERNAL */
  #parse(options: unknown): TenantPolicy {
    if (options === undefined) {
      throw noPolicy(
        new TypeError("options.tenants() returned undefined: expected a policy; {} stands for the defaults"),
      );
    }
    if (!isPlainObject(options)) {
      throw noPolicy(new TypeError(`options.tenants() returned ${describeKind(options)}: expected a policy`));
    }
    const parsed = parsePolicy(options);
    if (!parsed.success) throw noPolicy(parsed.error);
    return this.#toPolicy(parsed.data);
  }

  #toPolicy({ limits = {}, weight = 1, ...stated }: StatedForTenant): TenantPolicy {
    const resolved = resolveLimits([this.#hostLimits, limits], undefined);
    const { inputBytes, jsonDepth, jsonValues } = resolved;
    const inputBounds = { bytes: inputBytes, depth: jsonDepth, values: jsonValues };
    const { coarseTime = this.#defaults.coarseTime } = stated;
    const { egress = this.#defaults.egress, secrets = this.#defaults.secrets } = stated;
    const quota = toQuotaPlan(this.#defaults, stated);
    return { configuredLimits: limits, limits: resolved, inputBounds, weight, coarseTime, egress, secrets, quota };
  }

  [Symbol.dispose](): void {
    this.#cache?.[Symbol.dispose]();
  }
}

/** A policy may be a proxy, whose reading throws. */
function parsePolicy(options: object): ReturnType<typeof TenantOptionsSchema.safeParse> {
  try {
    return TenantOptionsSchema.safeParse(options);
  } catch (cause) {
    throw noPolicy(cause);
  }
}
