// Policies of tenants: limits, scheduling weight, clock, egress rules and secrets. They are looked up when a tenant makes a call.
import * as z from "zod";
import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits, PartialLimits } from "../../sandbox/contract/limits.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
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
import { parseOptions, toOptionIssues } from "../config/option-errors.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import { PoolSchema } from "../fleet/protocol/pool-name.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { TenantIdSchema } from "../routing/tenant-scope.ts";
import { notifySafely } from "../util/host-callback.ts";
import {
  DEFAULT_TENANT_CACHE,
  nameOfPolicy,
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

/** Policy of one tenant, for the option `tenants`. What it leaves out is as the host's options say. */
export interface TenantOptions {
  /** Limits of the tenant's calls. The lower one of these and the host's applies. */
  readonly limits?: PartialLimits | undefined;
  /** Share of the machine's CPU time relative to other busy tenants, 0.01 to 100. @default 1 */
  readonly weight?: number | undefined;
  /** Replaces the host's `coarseTime`. */
  readonly coarseTime?: boolean | undefined;
  /**
   * Pools of executors that may run the tenant's calls, for a host with the option `executors`.
   * @default ["default"]
   */
  readonly pools?: readonly string[] | undefined;
  /** Replaces the host's `egress`. */
  readonly egress?: EgressOptions | undefined;
  /** Replaces the host's `secrets`. */
  readonly secrets?: Secrets | undefined;
  /** Rate limit of the tenant. Replaces the host's `rateLimit`. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** Quotas per minute, hour, day or month. Each one replaces the host's quota of the same resource and period. */
  readonly quotas?: QuotaOptions | undefined;
}

/** Returns the options of a tenant, or a promise of them. Undefined means that the host does not know the tenant, and denies its calls. */
export type TenantLookup = (tenantId: string) => TenantOptions | undefined | Promise<TenantOptions | undefined>;

/**
 * Policies of tenants, with `tenancy: "multi"`.
 *
 * A record overrides the defaults for the tenants that it lists. All other tenants have the defaults.
 *
 * A function decides for every tenant and can be asynchronous. It returns `{}` for a tenant with the defaults. If it
 * throws, rejects, returns undefined or an invalid policy, or does not answer within `tenantCache.timeoutMs`, the call
 * or other method is denied with INTERNAL, and `onError` receives the cause. A policy that it returns synchronously is
 * used for one call; the same object is parsed once in `tenantCache.ttlMs`, so return a new object for a changed
 * policy. Asynchronous answers are cached according to `tenantCache`. Calls of one tenant share a pending look-up, and
 * each call waits within its own timeout.
 */
export type Tenants = { readonly [tenantId: string]: TenantOptions } | TenantLookup;

export const TenantOptionsSchema = strictObject({
  limits: PartialLimitsSchema.optional(),
  weight: z.number().min(0.01).max(100).optional(),
  coarseTime: z.boolean().optional(),
  pools: z.array(PoolSchema).min(1).max(100).optional(),
  egress: EgressSchema.optional(),
  secrets: SecretsSchema.optional(),
  rateLimit: RateLimitSchema.optional(),
  quotas: QuotasSchema.optional(),
});
type StatedForTenant = z.infer<typeof TenantOptionsSchema>;

const TenantsRecordSchema = z.record(TenantIdSchema, TenantOptionsSchema);
/** Checks the type only. Policies are parsed when a tenant makes a call, like the answers of a function. */
const TenantsByIdSchema = z
  .custom<{ readonly [tenantId: string]: TenantOptions }>()
  .superRefine((value: unknown, context) => {
    const { error } = TenantsRecordSchema.safeParse(value);
    for (const { path, message } of error === undefined ? [] : toOptionIssues(TenantsRecordSchema, error))
      context.addIssue({ code: "custom", path: path === "" ? [] : [path], message, continue: false });
  });
const isLookUp = (value: unknown): value is TenantLookup => typeof value === "function";

export const TenantsSchema: z.ZodType<Tenants, Tenants> = z.union(
  [TenantsByIdSchema, z.custom<TenantLookup>(isLookUp)],
  "Expected { [tenantId]: { limits?, weight?, egress?, secrets? … } }, or a function that gives such for a tenant",
);

/** The policy of a tenant without options of its own. */
export interface TenantDefaults extends QuotaPolicy {
  readonly coarseTime: boolean;
  readonly egress: EgressPolicy;
  readonly secrets: SecretPolicies;
}
const NO_DEFAULTS: TenantDefaults = { coarseTime: false, egress: NO_EGRESS, secrets: {} };

export interface TenantPolicy {
  readonly configuredLimits: PartialLimits;
  /** Limits for all calls of the tenant together. */
  readonly limits: Limits;
  /** Limits of the arguments of its calls. */
  readonly inputBounds: JsonTextLimits;
  readonly weight: number;
  readonly coarseTime: boolean;
  /** Undefined if the tenant's options name none. */
  readonly pools: readonly string[] | undefined;
  readonly egress: EgressPolicy;
  readonly secrets: SecretPolicies;
  /** Undefined for a tenant with neither a rate limit nor a quota. */
  readonly quota: QuotaPlan | undefined;
}

export interface TenantPoliciesOptions extends Partial<TenantCacheLimits> {
  /** Receives the failure of a look-up, unless it is the result of a call, which the router reports. */
  readonly onError?: ((error: ToolError) => unknown) | undefined;
}

/** Looks up policies. Disposing it ends pending look-ups. */
export class TenantPolicies implements Disposable {
  readonly #hostLimits: PartialLimits;
  readonly #defaults: TenantDefaults;
  readonly #find: (tenantId: string) => TenantPolicy | PendingPolicy<TenantPolicy>;
  readonly #cache: PolicyCache<TenantPolicy> | undefined;
  readonly #onError: TenantPoliciesOptions["onError"];
  /** A failure that several waits share is reported once. */
  readonly #reported = new WeakSet<object>();
  /** The policy of a tenant without options of its own. */
  readonly default: TenantPolicy;
  /** Parsed policies by object, because a function may return the same object for each call. */
  #parsed = new WeakMap<TenantOptions, { readonly policy: TenantPolicy; readonly until: number }>();

  constructor(
    tenants: Tenants,
    hostLimits: PartialLimits,
    defaults: TenantDefaults = NO_DEFAULTS,
    { onError, ...limits }: TenantPoliciesOptions = {},
  ) {
    this.#hostLimits = hostLimits;
    this.#defaults = defaults;
    this.#onError = onError;
    this.default = this.#toPolicy({});
    if (typeof tenants === "function") {
      const parse = (options: unknown, tenantId: string): TenantPolicy => this.#parse(options, tenantId);
      const cache = new PolicyCache({ ...DEFAULT_TENANT_CACHE, ...limits, lookUp: tenants, parse, onError });
      // A function may return the same object with other content.
      this.#find = (tenantId) => cache.get(tenantId, (options) => this.#parseOnce(options, cache.ttlMs, tenantId));
      this.#cache = cache;
    } else {
      const byId = new Map(Object.entries(tenants));
      this.#find = (tenantId) => {
        const options = byId.get(tenantId);
        return options === undefined ? this.default : this.#parseOnce(options, Number.POSITIVE_INFINITY, tenantId);
      };
    }
  }

  /**
   * Returns the policy of a tenant for a call; a pending one only while a lookup runs.
   * @throws {ToolError} INTERNAL if the host's function throws, or returns anything but a policy or a promise
   */
  of(tenantId: string): TenantPolicy | PendingPolicy<TenantPolicy> {
    return this.#find(tenantId);
  }

  /**
   * Returns the policy of a tenant when it is known, for anything but a call. Reports a failure to the operator.
   * @throws {ToolError} INTERNAL, as a rejection
   */
  async whenKnown(tenantId: string): Promise<TenantPolicy> {
    try {
      const found = this.of(tenantId);
      return "wait" in found ? await found.wait() : found;
    } catch (thrown) {
      const error = thrown as ToolError;
      const isNew = error.code === "INTERNAL" && !this.#reported.has(error);
      this.#reported.add(error);
      if (isNew) notifySafely(this.#onError, error);
      throw error;
    }
  }

  /** Removes the policy of a tenant from the cache. A pending look-up is used only for the calls that wait for it already. */
  invalidate(tenantId: string): void {
    this.#cache?.invalidate(tenantId);
    // It is not known which objects belong to this tenant.
    this.#parsed = new WeakMap();
  }

  #parseOnce(options: unknown, ttlMs: number, tenantId: string): TenantPolicy {
    const now = performance.now();
    const known = this.#parsed.get(options as TenantOptions);
    if (known !== undefined && known.until > now) return known.policy;
    const policy = this.#parse(options, tenantId);
    this.#parsed.set(options as TenantOptions, { policy, until: now + ttlMs });
    return policy;
  }

  /** @throws {ToolError} INTERNAL */
  #parse(options: unknown, tenantId: string): TenantPolicy {
    const what = nameOfPolicy(tenantId);
    if (options === undefined) {
      throw noPolicy(new TypeError(`${what} returned undefined: expected a policy; {} stands for the defaults`));
    }
    if (!isPlainObject(options)) {
      throw noPolicy(new TypeError(`${what} returned ${describeKind(options)}: expected a policy`));
    }
    try {
      return this.#toPolicy(parseOptions(TenantOptionsSchema as z.ZodType<StatedForTenant>, options, what));
    } catch (cause) {
      // Invalid options, or a proxy that throws when it is read.
      throw noPolicy(cause);
    }
  }

  #toPolicy({ limits = {}, weight = 1, ...stated }: StatedForTenant): TenantPolicy {
    const resolved = resolveLimits([this.#hostLimits, limits], undefined);
    const { inputBytes, jsonDepth, jsonValues } = resolved;
    const inputBounds = { bytes: inputBytes, depth: jsonDepth, values: jsonValues };
    const { coarseTime = this.#defaults.coarseTime } = stated;
    const { egress = this.#defaults.egress, secrets = this.#defaults.secrets } = stated;
    const quota = toQuotaPlan(this.#defaults, stated);
    const { pools } = stated;
    return {
      configuredLimits: limits,
      limits: resolved,
      inputBounds,
      weight,
      coarseTime,
      pools,
      egress,
      secrets,
      quota,
    };
  }

  [Symbol.dispose](): void {
    this.#cache?.[Symbol.dispose]();
  }
}

/**
 * Checks the options of a tenant, for example before a host stores them: invalid options of a stored policy would deny every call of the
 * tenant.
 * @throws {ToolError} PARAM_INVALID, which names the path of each invalid option
 */
export function checkTenantOptions(options: TenantOptions): void {
  parseOptions(TenantOptionsSchema as z.ZodType<unknown>, options, "options");
}
