// The zod schemas of the options of createGlovebox(): they validate the options and state every default.
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { BUILTIN_TOOL_NAMES } from "../../bundler/artifacts/builtin-bundles.ts";
import { BundleLimitsSchema } from "../../bundler/bundler.ts";
import { BUILTIN_CAPABILITY_NAMES } from "../../sandbox/contract/capability-names.ts";
import { CapabilityRequestsSchema } from "../../sandbox/contract/capability-requests.ts";
import { ENGINE_FEATURE_NAMES } from "../../sandbox/contract/engine-features.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { ISOLATE_LIFETIMES } from "../../sandbox/protocol/message-fields.ts";
import { MAX_WARM_ISOLATES } from "../../sandbox/worker/warm-isolates.ts";
import type { Capability } from "../capabilities/capability.ts";
import { EgressSchema, NO_EGRESS, SecretsSchema } from "../capabilities/fetch/egress-policy.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import { ExecutorsSchema } from "../fleet/fleet-options.ts";
import { McpSchema } from "../mcp/client/mcp-options.ts";
import { HooksSchema } from "../observability/hooks/hooks.ts";
import type { LoggerOption } from "../observability/operator-log.ts";
import { TelemetryOptionsSchema } from "../observability/telemetry/telemetry-options.ts";
import { ArgumentOptionsSchema } from "../pipeline/coercion.ts";
import { HealthSchema } from "../routing/health/source-health.ts";
import { MAX_CONCURRENT_TOOLS } from "../routing/read-batch.ts";
import { type Flags, isFlags } from "../routing/tool-gate.ts";
import { RunStoreSchema } from "../runs/run-options.ts";
import { QuotasSchema, RateLimitSchema } from "../tenants/quotas/quota-options.ts";
import { QuotaStoreSchema } from "../tenants/quotas/quota-store.ts";
import { checkTenancyOptions, tenancyFields } from "../tenants/tenancy-options.ts";
import { homeFolder } from "../util/home-folder.ts";
import { LAYER_NAMES, type Layer } from "../workers/hardening/layers.ts";
import { type GloveboxOptions, PLACEMENTS, SHUTDOWN_SIGNALS, type ToolWarning } from "./glovebox-options.ts";
import { parseOptions, unknownOptionError } from "./option-errors.ts";

/** Returns the default of `workers.memoryMiB`: three quarters of the machine's memory, or of its container's limit if that is lower. */
function machineMemoryMiB(): number {
  const constrained = process.constrainedMemory();
  const bytes = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.max(256, Math.floor((bytes / 1024 / 1024) * 0.75));
}

export const CAPABILITY_RULE = "Expected the return value of defineCapability()";
export const isCapability = (value: unknown): value is Capability =>
  typeof value === "object" && value !== null && typeof (value as Capability).checkInput === "function";
const isBuiltinName = (name: string): boolean => (BUILTIN_CAPABILITY_NAMES as readonly string[]).includes(name);
/** Checks that all names differ and that none is reserved. Only a stub for tests may have the name of a built-in capability, other than `log`. */
const haveAllowedNames = (capabilities: readonly Capability[]): boolean =>
  new Set(capabilities.map(({ name }) => name)).size === capabilities.length &&
  capabilities.every(({ name, isStub }) => !isBuiltinName(name) || (isStub === true && name !== "log"));
const isKvStore = (value: unknown): value is KvStore =>
  typeof value === "object" &&
  value !== null &&
  ["get", "set", "delete", "list", "usage"].every(
    (method) => typeof (value as { readonly [name: string]: unknown })[method] === "function",
  );
const isFunction = (value: unknown): value is (error: unknown) => void => typeof value === "function";

const LayerSchema = z.enum(LAYER_NAMES as readonly [Layer, ...Layer[]]);
export const HardeningSchema = z
  .union(
    [
      z.enum(["auto", "strict"]),
      strictObject({
        require: z.array(LayerSchema).default([]),
        without: z.array(LayerSchema).default([]),
        jitless: z.boolean().default(false),
      }),
    ],
    `Expected "auto", "strict" or { require?, without?, jitless? } with names of ${LAYER_NAMES.join(", ")}`,
  )
  .transform((hardening) => {
    if (typeof hardening === "object") return hardening;
    return { require: hardening === "strict" ? [...LAYER_NAMES] : [], without: [], jitless: false };
  });

/** Longest time in ms that `close()` waits for running calls: as long as the longest call. */
export const MAX_DRAIN_MS = 300_000;

const defaultStorePath = (): string => join(homeFolder(), ".local", "share", "glovebox", "kv.sqlite");
/** In the user's home, because V8 trusts code caches: in a shared temporary folder, other users could plant them. */
const defaultCacheDirectory = (): string => join(homeFolder(), ".cache", "glovebox");

const ToolsSchema = strictObject({
  enabled: z.boolean().default(false),
  builtinTools: z
    .union([z.literal(true), z.array(z.enum(BUILTIN_TOOL_NAMES))])
    .transform((names) => (names === true ? BUILTIN_TOOL_NAMES : [...new Set(names)]))
    .default([]),
  executionTimeoutMs: z.int().min(1_000).max(LIMITS.timeoutMs.max).optional(),
  maxConcurrentTools: z.int().min(1).max(MAX_CONCURRENT_TOOLS).optional(),
});

/** Valid names of a Python distribution (packaging.python.org, "Names and normalization"). */
const PACKAGE_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/;

export const WorkersSchema = strictObject({
  max: z.int().min(1).max(1_024).default(16),
  warmProcesses: z.int().min(0).max(64).default(1),
  warmPythonProcesses: z.int().min(0).max(16).default(1),
  memoryMiB: z.int().min(256).default(machineMemoryMiB),
  maxQueued: z.int().min(0).max(1_000_000).default(10_000),
});

export const GloveboxOptionsSchema = strictObject({
  tools: ToolsSchema.optional(),
  flags: z.custom<Flags>(isFlags, "Expected a function, or a client with getBooleanDetails()").optional(),
  limits: PartialLimitsSchema.default({}),
  isolateLifetime: z.enum(ISOLATE_LIFETIMES).default("call"),
  placement: z.enum(PLACEMENTS).default("tenant"),
  ...tenancyFields,
  hardening: HardeningSchema.prefault("auto"),
  bundler: strictObject({
    packagesDir: z.string().min(1).optional(),
    root: z.string().min(1).optional(),
    linkedPackages: z.array(z.string().min(1)).optional(),
    allowPackages: z.array(z.string().min(1)).optional(),
    limits: BundleLimitsSchema.optional(),
  }).default({}),
  workers: WorkersSchema.prefault({}),
  executors: ExecutorsSchema.optional(),
  python: strictObject({
    packages: strictObject({
      dir: z.string().min(1),
      allow: z.array(z.string().regex(PACKAGE_NAME)).max(64),
    }).optional(),
    capabilities: CapabilityRequestsSchema.optional(),
  }).default({}),
  cache: z
    .union([
      z.literal(false).transform(() => ({ directory: undefined })),
      strictObject({
        directory: z
          .union([z.string().min(1), z.literal(false).transform(() => undefined)])
          .default(defaultCacheDirectory),
        maxBytes: z.int().min(0).optional(),
        memoryBytes: z.int().min(0).optional(),
      }),
    ])
    .prefault({}),
  shutdown: z
    .union([
      z.literal(false).transform(() => ({ signals: [], drainMs: 0 })),
      strictObject({
        signals: z.array(z.enum(SHUTDOWN_SIGNALS)).default([]),
        drainMs: z.int().min(0).max(MAX_DRAIN_MS).default(5_000),
      }),
    ])
    .prefault({}),
  kv: z
    .union(
      [z.literal("memory"), strictObject({ path: z.string().min(1) }), z.custom<KvStore>(isKvStore)],
      'Expected "memory", { path } or a KvStore',
    )
    .default(() => ({ path: defaultStorePath() })),
  rateLimit: RateLimitSchema.optional(),
  quotas: QuotasSchema.optional(),
  quotaStore: QuotaStoreSchema.optional(),
  runStores: z.array(RunStoreSchema).max(100).default([]),
  egress: EgressSchema.default(NO_EGRESS),
  secrets: SecretsSchema.default({}),
  capabilities: z
    .array(z.custom<Capability>(isCapability, CAPABILITY_RULE))
    .refine(
      haveAllowedNames,
      `Expected capabilities with different names, and none with a reserved name: ${BUILTIN_CAPABILITY_NAMES.join(", ")}`,
    )
    .default([]),
  mcp: McpSchema.prefault({}),
  arguments: ArgumentOptionsSchema.optional(),
  coarseTime: z.boolean().default(false),
  engine: strictObject({ dynamicCode: z.boolean().default(true) }).prefault({}),
  health: HealthSchema.prefault({}),
  hooks: HooksSchema.optional(),
  telemetry: z
    .union(
      [z.literal(true), TelemetryOptionsSchema],
      "Expected true or { tracerProvider?, meterProvider?, captureContent?, redact?, propagate? }",
    )
    .optional(),
  logger: z
    .custom<LoggerOption>(
      (value) => value === true || typeof value === "string" || (typeof value === "object" && value !== null),
      "Expected a pino logger, pino's options, a level or true",
    )
    .optional(),
  onWarning: z.custom<(warning: ToolWarning) => void>(isFunction, "Expected a function").optional(),
  onError: z.custom<(error: unknown) => void>(isFunction, "Expected a function").optional(),
});

export type Config = z.infer<typeof GloveboxOptionsSchema>;

/** Maximum number of calls that run in one process at the same time. An owner with more calls gets another process, up to one for each core. */
export const CALLS_PER_WORKER = 16;
/** Additional slots for nested calls in one process. Without them, callers that wait for nested calls could hold all slots and deadlock. */
export const NESTED_PER_WORKER = 16;
/** Maximum number of isolates in one process: running ones, those kept warm (see IsolatePool), prewarmed ones, and two that are being disposed. */
export const ISOLATES_PER_WORKER: number = CALLS_PER_WORKER + NESTED_PER_WORKER + 16 + MAX_WARM_ISOLATES + 2;
export const WORKER_IDLE_MS = 60_000;
export const maxWorkersPerOwner = (): number => Math.max(1, availableParallelism());

/**
 * Validates the options of `createGlovebox` and fills in the defaults.
 * @throws {ToolError} PARAM_INVALID, which names the path of each invalid option
 */
export function parseConfig(options: GloveboxOptions = {}): Config {
  const config = parseOptions(GloveboxOptionsSchema, options, "options");
  checkTenancyOptions(config);
  checkPythonCapabilities(config);
  return config;
}

/** Checks the names here, because a Glovebox without the tool python_exec never resolves these grants. */
function checkPythonCapabilities({ python, capabilities }: Config): void {
  // `ctx.onRollback` comes with waitFor, and is not granted on its own.
  const builtin = BUILTIN_CAPABILITY_NAMES.filter((name) => name !== "onRollback");
  const known = [...builtin, ...capabilities.map(({ name }) => name), ...ENGINE_FEATURE_NAMES];
  const unknown = Object.keys(python.capabilities ?? {}).find((name) => !known.includes(name));
  if (unknown !== undefined) throw unknownOptionError("options.python.capabilities", unknown, known);
}
