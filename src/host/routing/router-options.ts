// The options of a ToolRouter and of its sources, checked by one schema: a misspelled guard or limit must not be ignored.
import * as z from "zod";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type PartialLimits, PartialLimitsSchema } from "../../sandbox/contract/limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { type EgressPolicy, NO_EGRESS, type SecretPolicies } from "../capabilities/fetch/egress-policy.ts";
import { parseOptions, unknownOptionError } from "../config/option-errors.ts";
import type { Hook } from "../observability/hooks/hooks.ts";
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
import { TenantAdmission } from "../tenants/tenant-admission.ts";
import type { Tenants } from "../tenants/tenant-policies.ts";
import { isToolRegistry } from "./checked-registry.ts";
import { type HealthOptions, HealthSchema } from "./health/source-health.ts";
import { MemoryToolRegistry, type ToolRegistry } from "./registry.ts";
import { type Flags, isFlags } from "./tool-gate.ts";
import type { SourceDiscovery, SourceTransport } from "./tool-source.ts";

export interface ToolRouterOptions {
  /** Default: a registry in memory. */
  readonly registry?: ToolRegistry | undefined;
  /** For every call; a tool and a call can only lower them. */
  readonly limits?: PartialLimits | undefined;
  /**
   * `"single"`: there is one tenant, and no caller passes a `tenantId`. `"multi"`: every tool, call and session names its tenant; a tool of all
   * tenants is registered with `scope: "global"`. Default: `"single"`.
   */
  readonly tenancy?: TenancyMode | undefined;
  /** Policies of tenants: a record, or a function that looks them up. Requires `tenancy: "multi"`. */
  readonly tenants?: Tenants | undefined;
  /** How answers of an asynchronous `tenants` function are cached. Requires such a function. */
  readonly tenantCache?: TenantCacheOptions | undefined;
  /** Whether guests see a clock that stands still while they run, unless their tenant's policy says otherwise. */
  readonly coarseTime?: boolean | undefined;
  /** Where sandboxed tools may send requests, and with which secrets, unless their tenant's policy says otherwise; parsed already. */
  readonly egress?: EgressPolicy | undefined;
  readonly secrets?: SecretPolicies | undefined;
  /** How often each tenant may call, unless its policy says otherwise. Default: as often as it will. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** What each tenant may use in a period, unless its policy says otherwise. Default: as much as it will. */
  readonly quotas?: QuotaOptions | undefined;
  /** Keeps the counters of rates and quotas. Default: in memory. */
  readonly quotaStore?: QuotaStore | undefined;
  /** Made once for all routers of a Glovebox; in the place of `quotaStore`. */
  readonly admission?: TenantAdmission | undefined;
  /** False turns all tools off, except those that a flag turns on. Default: true without `flags`, false with them. */
  readonly enabled?: boolean | undefined;
  /** Feature flags, which outrank `enabled`: with them a tool is off unless they or it turn it on. */
  readonly flags?: Flags | undefined;
  /** When the circuit of a source of tools that keeps failing opens. */
  readonly health?: HealthOptions | undefined;
  /** How arguments are coerced that a tool would reject. A tool and a call may set their own. */
  readonly arguments?: ArgumentOptions | undefined;
  /** Receives each INTERNAL failure with its cause: for the operator's log, never for a caller. */
  readonly onInternalError?: ((error: ToolError) => unknown) | undefined;
  /** Functions around each stage of a call, in their order. */
  readonly hooks?: readonly Hook[] | undefined;
  /** Made by `createTelemetry` and `createHostLog`. */
  readonly telemetry?: Telemetry | undefined;
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
  admission: z.instanceof(TenantAdmission).optional(),
  enabled: z.boolean().optional(),
  flags: z.custom<Flags>(isFlags, "Expected a function, or a client with getBooleanDetails()").optional(),
  health: HealthSchema.prefault({}),
  arguments: ArgumentOptionsSchema.optional(),
  onInternalError: z
    .custom<(error: ToolError) => unknown>((value) => typeof value === "function", "Expected a function")
    .optional(),
  // Each hook is parsed where they are put together.
  hooks: z.custom<readonly Hook[]>(Array.isArray, "Expected an array of hooks").default([]),
  telemetry: z.custom<Telemetry>((value) => hasMethod(value, "begin"), "Expected a Telemetry").optional(),
  log: z.custom<HostLog>((value) => hasMethod(value, "ended"), "Expected a HostLog").optional(),
});
export type ParsedRouterOptions = z.output<typeof RouterOptionsSchema>;

/** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
export function parseRouterOptions(options: unknown = {}): ParsedRouterOptions {
  const parsed = parseOptions(RouterOptionsSchema, options, "options");
  checkTenancyOptions(parsed);
  return parsed;
}

const TRANSPORT_FIELDS: readonly string[] = ["kind", "call", "discovery"];
const DISCOVERY_METHODS: readonly (keyof SourceDiscovery)[] = ["isFor", "mayHave", "isKnown", "discover"];

/**
 * Checks a source that a host adds. A transport may be an instance of the host's own class; of a plain object each key must be known.
 * @throws {ToolError} PARAM_INVALID
 */
export function checkSource(id: unknown, transport: unknown): void {
  if (typeof id !== "string" || !TOOL_NAME_PATTERN.test(id)) {
    throw new ToolError("PARAM_INVALID", `Expected an id of ${TOOL_NAME_RULE} for a source, got ${describeKind(id)}`);
  }
  const what = `The source ${id}`;
  if (!hasMethod(transport, "call")) {
    const got = describeKind(transport);
    throw new ToolError("PARAM_INVALID", `${what}: expected { call } with a function, got ${got}`);
  }
  if (isPlainObject(transport)) checkKnown(transport, what, TRANSPORT_FIELDS);
  const { kind = "host", discovery } = transport as SourceTransport;
  if (kind !== "host" && kind !== "mcp" && kind !== "python") {
    throw new ToolError("PARAM_INVALID", `${what}: expected a kind of host, mcp, python`);
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
