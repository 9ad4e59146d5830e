// Options of createGlovebox() and addTool(), with the zod schemas that validate them and state every default.
import { availableParallelism, homedir, totalmem } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { BUILTIN_TOOL_NAMES, type BuiltinToolName } from "../../bundler/artifacts/builtin-bundles.ts";
import { BundleLimitsSchema } from "../../bundler/bundler.ts";
import { type BundleLimits, SOURCE_MODES, type SourceMode } from "../../bundler/tool-bundle.ts";
import {
  type CapabilityRequests,
  CapabilityRequestsSchema,
  type DefinitionOverrides,
  DefinitionOverridesSchema,
} from "../../sandbox/contract/definition.ts";
import { LIMITS, type PartialLimits, PartialLimitsSchema } from "../../sandbox/contract/limits.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { ISOLATE_LIFETIMES, type IsolateLifetime } from "../../sandbox/protocol/messages.ts";
import { MAX_WARM_ISOLATES } from "../../sandbox/worker/warm-isolates.ts";
import type { Capability } from "../capabilities/capability.ts";
import {
  type EgressOptions,
  EgressSchema,
  NO_EGRESS,
  type Secrets,
  SecretsSchema,
} from "../capabilities/fetch/egress-policy.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import { type McpOptions, McpSchema } from "../mcp/client/mcp-options.ts";
import { type Hook, HooksSchema } from "../observability/hooks/hooks.ts";
import type { LoggerOption } from "../observability/operator-log.ts";
import { type TelemetryOptions, TelemetryOptionsSchema } from "../observability/telemetry/telemetry-options.ts";
import { type ArgumentOptions, ArgumentOptionsSchema } from "../pipeline/coercion.ts";
import { type HealthOptions, HealthSchema } from "../routing/health/source-health.ts";
import { ownerFields } from "../routing/tenant-scope.ts";
import { type Flags, isFlags } from "../routing/tool-gate.ts";
import { MAX_CONCURRENT_TOOLS } from "../routing/tool-invoker.ts";
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
import { LAYER_NAMES, type Layer } from "../workers/hardening/layers.ts";
import { parseOptions } from "./option-errors.ts";

export const PLACEMENTS = ["tenant", "shared"] as const;
/**
 * Which tenants a worker process serves: `"tenant"` for one tenant, after which the process ends, `"shared"` for all tenants of this host.
 */
export type Placement = (typeof PLACEMENTS)[number];

export const SHUTDOWN_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"] as const;
export type ShutdownSignal = (typeof SHUTDOWN_SIGNALS)[number];

/**
 * Which hardening layers worker processes must have: `"auto"` for every layer that works on this machine, `"strict"` for all of them, or
 * a list of required and of disabled layers.
 */
export type Hardening =
  | "auto"
  | "strict"
  | {
      /** Layers without which `createGlovebox` fails with TOOL_UNAVAILABLE. */
      readonly require?: readonly Layer[] | undefined;
      /** Layers that are not used, even where the machine has them. */
      readonly without?: readonly Layer[] | undefined;
      /**
       * Whether V8 runs without its JIT compilers, so that a tool cannot attack them. Computing takes about seven times as long.
       * @default false
       */
      readonly jitless?: boolean | undefined;
    };

/** Options of the JavaScript engine. They do not concern Python tools, which have `eval` and `exec` of their own. */
export interface EngineOptions {
  /**
   * Whether tools and sessions have `eval`, `Function` and its async and generator variants. If false, these throw an `EvalError`, except
   * in a tool or session that is granted `stringToCode`.
   * @default true
   */
  readonly dynamicCode?: boolean | undefined;
}

/** Returns the default of `workers.memoryMiB`: three quarters of the machine's memory, or of its container's limit if that is lower. */
function machineMemoryMiB(): number {
  const constrained = process.constrainedMemory();
  const bytes = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.max(256, Math.floor((bytes / 1024 / 1024) * 0.75));
}

/** Which tools are enabled, and limits that apply to all of them. */
export interface ToolsOptions {
  /**
   * Whether tools that no flag decides about are listed and can be called. If you pass `tools` without it, only flags enable a tool.
   * @default false
   */
  readonly enabled?: boolean | undefined;
  /**
   * Names of the first-party tools to add for all tenants, or `true` for all of them.
   * @default []
   */
  readonly builtinTools?: true | readonly BuiltinToolName[] | undefined;
  /**
   * Longest time in ms that a call may run, 1,000 to 300,000. If `limits.timeoutMs` is set too, the lower one applies. A tenant, tool or
   * call can only lower it.
   */
  readonly executionTimeoutMs?: number | undefined;
  /**
   * Most calls of one tenant that `box.invoker` runs at the same time, across all batches, 1 to 10.
   * @default 10
   */
  readonly maxConcurrentTools?: number | undefined;
}

/** Options for tools written in Python. */
export interface PythonOptions {
  /**
   * Wheels that Python tools may import: `dir` is their folder, `allow` the names of the packages. A wheel must be pure Python, or built
   * for the version of Pyodide in use. Default: the standard library only.
   */
  readonly packages?: { readonly dir: string; readonly allow: readonly string[] } | undefined;
  /**
   * Capabilities granted to `python_exec`, in the format of a tool definition: `{ kv: {}, tools: ["words"] }`.
   * @default {}
   */
  readonly capabilities?: CapabilityRequests | undefined;
}

/** A probable mistake in a tool that was added. */
export interface ToolWarning {
  readonly toolName: string;
  readonly message: string;
}

/** Options of `createGlovebox`. All are optional, and the defaults are the safe choice. */
export interface GloveboxOptions {
  /** Which tools are enabled, and limits that apply to all of them. Default: every tool that the host adds is enabled. */
  readonly tools?: ToolsOptions | undefined;
  /**
   * Feature flags that override `tools`: a function, or an OpenFeature client. Each tool has two flags: `tools.enabled`, which all tools
   * share, and `tools.NAME`. A tool is disabled if one of them is false, enabled if one is true, and otherwise follows the option
   * `tools.enabled`, or is disabled if that is not set. A flag that throws, or does not resolve within 1 s, counts as false, and `onError`
   * receives the cause.
   */
  readonly flags?: Flags | undefined;
  /** Limits of every call. A tenant, tool or call can only lower them. */
  readonly limits?: PartialLimits | undefined;
  /**
   * How long an isolate lives: for one call, for many calls of a tool, or for a session.
   * @default "call"
   */
  readonly isolateLifetime?: IsolateLifetime | undefined;
  /**
   * Which tenants a worker process serves.
   * @default "tenant"
   */
  readonly placement?: Placement | undefined;
  /**
   * `"single"`: there is one tenant, and passing a `tenantId` anywhere is an error. `"multi"`: every method that concerns a tool, a call, a
   * session or a stored value requires `tenantId`; a tool of all tenants is added with `scope: "global"`.
   * @default "single"
   */
  readonly tenancy?: TenancyMode | undefined;
  /**
   * Policies of tenants, such as their limits and their share of the machine: a record by tenant id, or a function that returns the policy
   * of a tenant.
   */
  readonly tenants?: Tenants | undefined;
  /** How long the results of an asynchronous `tenants` function are cached. */
  readonly tenantCache?: TenantCacheOptions | undefined;
  /**
   * Hardening of the worker processes. `"auto"`: every layer that works on this machine; `box.hardening` reports which. `"strict"`:
   * `createGlovebox` fails if a layer is missing. An object names the layers to require and those to leave out.
   * @default "auto"
   */
  readonly hardening?: Hardening | undefined;
  /** How tools are built, and which packages they may import. */
  readonly bundler?:
    | {
        /** Folder that packages are loaded from. Default: every `node_modules` next to the tool and above it, up to `root`. */
        readonly packagesDir?: string | undefined;
        /** Topmost folder in which packages are looked up. Default: the current working directory. */
        readonly root?: string | undefined;
        /**
         * Workspace folders (npm, pnpm, yarn) that packages in the store may be symlinked to. A package whose real path lies outside of the
         * store and of these folders is rejected.
         * @default []
         */
        readonly linkedPackages?: readonly string[] | undefined;
        /** Names of the packages that tools may import. Default: all packages in the store. */
        readonly allowPackages?: readonly string[] | undefined;
        /** Limits of a build: sizes, number of modules and time. */
        readonly limits?: Partial<BundleLimits> | undefined;
      }
    | undefined;
  /** Size of the pool of worker processes. */
  readonly workers?:
    | {
        /**
         * Most worker processes at one time, 1 to 1,024.
         * @default 16
         */
        readonly max?: number | undefined;
        /**
         * Warm processes: started, and not used by any tenant yet, 0 to 64.
         * @default 1
         */
        readonly warmProcesses?: number | undefined;
        /**
         * Warm processes with a Python interpreter loaded, 0 to 16. They are started when the first Python tool is added. Each takes about
         * 300 MiB.
         * @default 1
         */
        readonly warmPythonProcesses?: number | undefined;
        /** Resident memory of all processes together, in MiB, at least 256. Default: three quarters of the machine's memory. */
        readonly memoryMiB?: number | undefined;
        /**
         * Most calls of all tenants that wait in the queue, 0 to 1,000,000.
         * @default 10_000
         */
        readonly maxQueued?: number | undefined;
      }
    | undefined;
  /** Packages that Python tools may import in addition to the standard library, and capabilities of `python_exec`. */
  readonly python?: PythonOptions | undefined;
  /** Cache of bundles and V8 code caches. `false`: in memory only. */
  readonly cache?:
    | false
    | {
        /** Folder of the cache on disk; `false` for none. Default: `~/.cache/glovebox`. */
        readonly directory?: string | false | undefined;
        /** Largest size of the folder in bytes. Default: 512 MiB. */
        readonly maxBytes?: number | undefined;
        /** Largest size of the cache in memory, in bytes. Default: 64 MiB. */
        readonly memoryBytes?: number | undefined;
      }
    | undefined;
  /**
   * Closes Glovebox when the process receives one of `signals`. Running calls have `drainMs` to finish, the rest end with CANCELLED. Then
   * the signal has its usual effect, unless the host has a listener of its own for it. Default: `{ signals: [], drainMs: 5_000 }`, which
   * installs no signal handler; `false` is the same.
   * @example { signals: ["SIGTERM"], drainMs: 10_000 }
   */
  readonly shutdown?:
    | false
    | { readonly signals?: readonly ShutdownSignal[] | undefined; readonly drainMs?: number | undefined }
    | undefined;
  /**
   * Key-value store behind `ctx.kv`, for tools that are granted `kv`: a SQLite file, `"memory"`, or the host's own store, which `close()` does
   * not close. Default: `~/.local/share/glovebox/kv.sqlite`, which all Glovebox instances of the operating system's user share.
   */
  readonly kv?: "memory" | { readonly path: string } | KvStore | undefined;
  /** How often each tenant may call. A tenant's policy replaces it. Default: no limit. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** How much each tenant may use in a minute, hour, day or month. A tenant's policy replaces it. Default: no limit. */
  readonly quotas?: QuotaOptions | undefined;
  /**
   * Store of the counters of `rateLimit` and `quotas`, for hosts that run several processes. `close()` does not close it. Default: counters in
   * memory, which are lost when the process ends.
   */
  readonly quotaStore?: QuotaStore | undefined;
  /** Where tools with the capability `fetch` may send requests. Default: nowhere. */
  readonly egress?: EgressOptions | undefined;
  /**
   * Secrets that the host adds to requests of tools with the capability `secrets`, and the hosts that may receive them. The tool never sees
   * the value.
   */
  readonly secrets?: Secrets | undefined;
  /** Host functions that can be granted to tools, made with `defineCapability`. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Upstream MCP servers, whose tools the router offers. Each is started, or connected to, when its tools are first needed. */
  readonly mcp?: McpOptions | undefined;
  /** How arguments that do not match a tool's schema are coerced. Default: not at all. A tool and a call may override it. */
  readonly arguments?: ArgumentOptions | undefined;
  /**
   * Whether a tool's clock stands still while its code runs and advances only when a host call returns or a timer fires. This defeats
   * timing attacks.
   * @default false
   */
  readonly coarseTime?: boolean | undefined;
  /** Features of the JavaScript engine that tools have without a grant. */
  readonly engine?: EngineOptions | undefined;
  /** When the circuit of a tool source that keeps failing opens. */
  readonly health?: HealthOptions | undefined;
  /** Functions of the host that run around each stage of a call: they observe, modify or reject it. */
  readonly hooks?: readonly Hook[] | undefined;
  /** OpenTelemetry: `true` for the global providers, or options with the host's own. Requires `@opentelemetry/api`. */
  readonly telemetry?: true | TelemetryOptions | undefined;
  /** Operator log: a pino instance, pino's options, a level, or `true`. Default: none. */
  readonly logger?: LoggerOption | undefined;
  /**
   * Receives probable mistakes, such as a tool that exports `parameters` instead of `inputSchema`. Default: the `logger`, or
   * `process.emitWarning()` if there is none.
   */
  readonly onWarning?: ((warning: ToolWarning) => void) | undefined;
  /** Receives failures whose cause must not be shown to the caller. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export const CAPABILITY_RULE = "Expected the return value of defineCapability()";
export const isCapability = (value: unknown): value is Capability =>
  typeof value === "object" && value !== null && typeof (value as Capability).checkInput === "function";
/** Names of Glovebox's own capabilities, which a host's capability cannot have. */
const BUILTIN_CAPABILITY_NAMES = ["log", "fetch", "secrets", "kv", "tools", "elicit", "sample", "roots"] as const;
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
const HardeningSchema = z
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

const defaultStorePath = (): string => join(homedir(), ".local", "share", "glovebox", "kv.sqlite");
/** In the user's home, because V8 trusts code caches: in a shared temporary folder, other users could plant them. */
const defaultCacheDirectory = (): string => join(homedir(), ".cache", "glovebox");

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

const OptionsSchema = strictObject({
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
  workers: strictObject({
    max: z.int().min(1).max(1_024).default(16),
    warmProcesses: z.int().min(0).max(64).default(1),
    warmPythonProcesses: z.int().min(0).max(16).default(1),
    memoryMiB: z.int().min(256).default(machineMemoryMiB),
    maxQueued: z.int().min(0).max(1_000_000).default(10_000),
  }).prefault({}),
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
  hooks: HooksSchema.transform((hooks) => hooks as readonly Hook[]).optional(),
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

export type Config = z.infer<typeof OptionsSchema>;

/** Most calls that run in one process at the same time. An owner with more calls gets another process, up to one for each core. */
export const CALLS_PER_WORKER = 16;
/** Additional slots for nested calls in one process. Without them, callers that wait for nested calls could hold all slots and deadlock. */
export const NESTED_PER_WORKER = 16;
/** Most isolates in one process: running ones, those kept warm (see IsolatePool), prewarmed ones, and two that are being disposed. */
export const ISOLATES_PER_WORKER: number = CALLS_PER_WORKER + NESTED_PER_WORKER + 16 + MAX_WARM_ISOLATES + 2;
export const WORKER_IDLE_MS = 60_000;
export const maxWorkersPerOwner = (): number => Math.max(1, availableParallelism());

/**
 * Validates the options of `createGlovebox` and fills in the defaults.
 * @throws {ToolError} PARAM_INVALID, which names the path of each invalid option
 */
export function parseConfig(options: GloveboxOptions = {}): Config {
  const config = parseOptions(OptionsSchema, options, "options");
  checkTenancyOptions(config);
  return config;
}

/** Source of a tool, and the parts of its definition that the host supplies or overrides. */
export type ToolInput = (
  | {
      /** Path of the tool's file. */
      readonly path: string;
    }
  | {
      /** Source files by path. */
      readonly files: { readonly [path: string]: string };
      /** Path of the file with the tool's exports. */
      readonly entry?: string | undefined;
    }
  | {
      /** Source text of a single-file tool. */
      readonly source: string;
      /**
       * `"script"` runs the source as the body of a sloppy-mode function of `input` and `ctx`, in JavaScript. Its output is what it
       * returns, or else the value of its last expression.
       * @default "module"
       */
      readonly mode?: SourceMode | undefined;
    }
) & {
  /** Language of the source. Default: by the extension of the file or entry, or TypeScript if there is none. */
  readonly language?: Language | undefined;
  /** Name of the tool if its definition has none. */
  readonly name?: string | undefined;
  /** Fields of the definition that the host supplies or overrides. `capabilities` named here, engine features included, are granted. */
  readonly overrides?: DefinitionOverrides | undefined;
};

/** Options of `addTool`. */
export interface AddToolOptions {
  /** The tenant that the tool belongs to, 1 to 1,024 characters. With `tenancy: "multi"`, this or `scope` is required. */
  readonly tenantId?: string | undefined;
  /** `"global"`: every tenant may call the tool. */
  readonly scope?: "global" | undefined;
  /** Names of capabilities and engine features to grant. `log` is always granted. */
  readonly grant?: readonly string[] | undefined;
  /** How long an isolate of this tool lives. Default: the option `isolateLifetime` of `createGlovebox`. */
  readonly isolateLifetime?: IsolateLifetime | undefined;
  /** How arguments of this tool are coerced. Overrides the option `arguments` of `createGlovebox`. */
  readonly arguments?: ArgumentOptions | undefined;
  /**
   * Whether the tool replaces the owner's tool of the same name, as `updateTool` does. If there is none, the tool is added.
   * @default false
   */
  readonly replace?: boolean | undefined;
}

/** Options of `updateTool`. Nothing is copied from the old version: an option that is left out has its default. */
export type UpdateToolOptions = Omit<AddToolOptions, "replace">;

export const LANGUAGES = ["javascript", "typescript", "python"] as const;
export type Language = (typeof LANGUAGES)[number];

const common = {
  language: z.enum(LANGUAGES).optional(),
  name: z.string().optional(),
  overrides: DefinitionOverridesSchema.optional(),
};
const ToolInputSchema = z.union(
  [
    strictObject({ path: z.string().min(1), ...common }),
    strictObject({ files: z.record(z.string(), z.string()), entry: z.string().optional(), ...common }),
    strictObject({ source: z.string(), mode: z.enum(SOURCE_MODES).optional(), ...common }),
  ],
  "Expected { path }, { files, entry? } or { source }, each with an optional language, name and overrides",
);
const toolOptionsShape = {
  ...ownerFields,
  grant: z.array(z.string()).default([]),
  isolateLifetime: z.enum(ISOLATE_LIFETIMES).optional(),
  arguments: ArgumentOptionsSchema.optional(),
};
const UpdateToolOptionsSchema = strictObject(toolOptionsShape);
const AddToolOptionsSchema = strictObject({ ...toolOptionsShape, replace: z.boolean().default(false) });
const InspectToolOptionsSchema = strictObject({
  ...ownerFields,
  grant: z.array(z.string()).default([]),
});
const CloseOptionsSchema = strictObject({ drainMs: z.int().min(0).max(MAX_DRAIN_MS).default(0) });

/** @throws {ToolError} PARAM_INVALID for an input that is not a valid {@link ToolInput} */
export function parseToolInput(input: unknown): ToolInput {
  return parseOptions(ToolInputSchema, input, "tool");
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseAddToolOptions(options: unknown = {}): z.infer<typeof AddToolOptionsSchema> {
  return parseOptions(AddToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseUpdateToolOptions(options: unknown = {}): z.infer<typeof UpdateToolOptionsSchema> {
  return parseOptions(UpdateToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseInspectToolOptions(options: unknown = {}): z.infer<typeof InspectToolOptionsSchema> {
  return parseOptions(InspectToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseCloseOptions(options: unknown = {}): z.infer<typeof CloseOptionsSchema> {
  return parseOptions(CloseOptionsSchema, options, "options");
}
