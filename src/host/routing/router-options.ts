// Options of a ToolRouter and of tool providers. Unknown keys are errors, because a misspelled guard or limit must not be ignored.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import { type EgressPolicy, NO_EGRESS, type SecretPolicies } from "../capabilities/fetch/egress-policy.ts";
import { parseOptions, unknownOptionError } from "../config/option-errors.ts";
import type { Hook } from "../observability/hooks/hook-events.ts";
import type { HostLog } from "../observability/operator-log.ts";
import type { Telemetry } from "../observability/telemetry/telemetry.ts";
import { type ArgumentOptions, ArgumentOptionsSchema } from "../pipeline/coercion.ts";
import type { TenantCacheOptions } from "../tenants/policy-cache.ts";
import {
  type QuotaOptions,
  QuotasSchema,
  type RateLimitOptions,
  RateLimitSchema,
} from "../tenants/quotas/quota-options.ts";
import { type QuotaStore, QuotaStoreSchema } from "../tenants/quotas/quota-store.ts";
import type { TenancyMode } from "../tenants/tenancy.ts";
import { checkTenancyOptions, tenancyFields } from "../tenants/tenancy-options.ts";
import type { Tenants } from "../tenants/tenant-policies.ts";
import { TenantStates } from "../tenants/tenant-states.ts";
import { isToolRegistry } from "./checked-registry.ts";
import { type HealthOptions, HealthSchema } from "./health/source-health.ts";
import { MemoryToolRegistry, type ToolRegistry } from "./registry.ts";
import { type Flags, isFlags } from "./tool-gate.ts";
import type { SourceDiscovery, SourceTransport } from "./tool-source.ts";

/** Options of a {@link ToolRouter}. The options of `createGlovebox` include most of them. */
export interface ToolRouterOptions {
  /** Registry of the tools. Default: in memory. */
  readonly registry?: ToolRegistry | undefined;
  /** Limits of every call. A tool and a call can only lower them. Default: those of `LIMITS`. */
  readonly limits?: PartialLimits | undefined;
  /**
   * `"single"`: there is one tenant, and passing a `tenantId` is an error. `"multi"`: every tool, call and session requires a `tenantId`; a tool
   * of all tenants is registered with `scope: "global"`. Default: `"single"`.
   */
  readonly tenancy?: TenancyMode | undefined;
  /** Policies of tenants: a record, or a function that looks them up. Requires `tenancy: "multi"`. Default: none; the other options apply. */
  readonly tenants?: Tenants | undefined;
  /** How answers of an asynchronous `tenants` function are cached. Requires such a function. Default: 30 s, for up to 10,000 tenants. */
  readonly tenantCache?: TenantCacheOptions | undefined;
  /** Whether guests see a coarse clock, which does not advance while they run. A tenant's policy takes precedence. @default false */
  readonly coarseTime?: boolean | undefined;
  /** Parsed egress rules of sandboxed tools. A tenant's policy takes precedence. Default: no requests are allowed. */
  readonly egress?: EgressPolicy | undefined;
  /** Parsed secrets of sandboxed tools, by name. A tenant's policy takes precedence. @default {} */
  readonly secrets?: SecretPolicies | undefined;
  /** Rate limit of each tenant. A tenant's policy takes precedence. Default: unlimited. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** Quotas of each tenant for a period. A tenant's policy takes precedence. Default: unlimited. */
  readonly quotas?: QuotaOptions | undefined;
  /** Keeps the counters of rates and quotas. Default: in memory. */
  readonly quotaStore?: QuotaStore | undefined;
  /** Shared by all routers of a Glovebox; used instead of `quotaStore`. Default: states of this router. */
  readonly tenantStates?: TenantStates | undefined;
  /** False disables all tools except those that a flag enables. Default: true without `flags`, false with them. */
  readonly enabled?: boolean | undefined;
  /** Feature flags, which take precedence over `enabled`. With flags, a tool is disabled unless a flag or `enabled` enables it. Default: none. */
  readonly flags?: Flags | undefined;
  /** When the circuit breaker of a source that keeps failing opens. Default: after 5 failures in a row, for 10 s to 5 minutes. `false`: never. */
  readonly health?: HealthOptions | undefined;
  /** How invalid arguments are coerced. The options of a tool and of a call take precedence. Default: not at all. */
  readonly arguments?: ArgumentOptions | undefined;
  /** Receives each INTERNAL failure with its cause, for the operator's log. Callers never receive the cause. Default: none. */
  readonly onInternalError?: ((error: ToolError) => unknown) | undefined;
  /** Functions that are called at the stages of each call, in this order. @default [] */
  readonly hooks?: readonly Hook[] | undefined;
  /** Traces and metrics of calls, created by `createTelemetry`. Default: none. */
  readonly telemetry?: Telemetry | undefined;
  /** Log for the operator, created by `createHostLog`. Default: none. */
  readonly log?: HostLog | undefined;
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
const hasMethod = (value: unknown, name: string): boolean =>
  isObject(value) && typeof (value as { readonly [key: string]: unknown })[name] === "function";
const isEgressPolicy = (value: unknown): boolean => isPlainObject(value) && Array.isArray(value.allow);

const RouterOptionsSchema = strictObject({
  registry: z
    .custom<ToolRegistry>(isToolRegistry, "Expected a ToolRegistry: { add, remove, get, list }")
    .default(() => new MemoryToolRegistry()),
  limits: PartialLimitsSchema.default({}),
  ...tenancyFields,
  coarseTime: z.boolean().default(false),
  egress: z.custom<EgressPolicy>(isEgressPolicy, "Expected a parsed egress policy").default(NO_EGRESS),
  secrets: z.custom<SecretPolicies>(isPlainObject, "Expected a plain object of secrets").default({}),
  rateLimit: RateLimitSchema.optional(),
  quotas: QuotasSchema.optional(),
  quotaStore: QuotaStoreSchema.optional(),
  tenantStates: z.instanceof(TenantStates).optional(),
  enabled: z.boolean().optional(),
  flags: z.custom<Flags>(isFlags, "Expected a function, or a client with getBooleanDetails()").optional(),
  health: HealthSchema.prefault({}),
  arguments: ArgumentOptionsSchema.optional(),
  onInternalError: z
    .custom<(error: ToolError) => unknown>((value) => typeof value === "function", "Expected a function")
    .optional(),
  // Hooks are parsed by the class Hooks.
  hooks: z.custom<readonly Hook[]>(Array.isArray, "Expected an array of hooks").default([]),
  telemetry: z.custom<Telemetry>((value) => hasMethod(value, "begin"), "Expected a Telemetry").optional(),
  log: z.custom<HostLog>((value) => hasMethod(value, "ended"), "Expected a HostLog").optional(),
});
export type ParsedRouterOptions = z.output<typeof RouterOptionsSchema>;

/** @throws {ToolError} PARAM_INVALID, naming the path of each invalid option */
export function parseRouterOptions(options: unknown = {}): ParsedRouterOptions {
  const parsed = parseOptions(RouterOptionsSchema, options, "options");
  checkTenancyOptions(parsed);
  return parsed;
}

const TRANSPORT_FIELDS: readonly string[] = ["kind", "call", "discovery"];
const DISCOVERY_METHODS: readonly (keyof SourceDiscovery)[] = ["isFor", "mayHave", "isKnown", "discover"];

/**
 * Checks a tool provider. A transport can be an instance of the host's own class; a plain object must have known keys only.
 * @throws {ToolError} PARAM_INVALID
 */
export function checkSource(id: unknown, transport: unknown): void {
  if (typeof id !== "string" || !TOOL_NAME_PATTERN.test(id)) {
    throw new ToolError(
      "PARAM_INVALID",
      `Expected an id of ${TOOL_NAME_RULE} for a tool provider, got ${describeKind(id)}`,
    );
  }
  const what = `The tool provider ${id}`;
  if (!hasMethod(transport, "call")) {
    const got = describeKind(transport);
    throw new ToolError("PARAM_INVALID", `${what}: expected { call } with a function, got ${got}`);
  }
  if (isPlainObject(transport)) checkKnown(transport, what, TRANSPORT_FIELDS);
  const { kind = "host", discovery } = transport as SourceTransport;
  if (kind !== "host" && kind !== "mcp" && kind !== "python") {
    throw new ToolError("PARAM_INVALID", `${what}: expected kind to be host, mcp or python`);
  }
  if (discovery === undefined) return;
  if (isPlainObject(discovery)) checkKnown(discovery, `${what}.discovery`, DISCOVERY_METHODS);
  const missing = DISCOVERY_METHODS.find((name) => !hasMethod(discovery, name));
  if (missing === undefined) return;
  throw new ToolError("PARAM_INVALID", `${what}.discovery.${missing}: expected a function`);
}

function checkKnown(fields: object, what: string, known: readonly string[]): void {
  const unknown = Object.keys(fields).find((key) => !known.includes(key));
  if (unknown !== undefined) throw unknownOptionError(what, unknown, known);
}
