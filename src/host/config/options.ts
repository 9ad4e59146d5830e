// createGlovebox's options: one schema that states every default. An error names the option's path.
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
import { ISOLATIONS, type Isolation } from "../../sandbox/protocol/messages.ts";
import { MAX_SPARES } from "../../sandbox/worker/warm-isolates.ts";
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
import { type ArgumentOptions, ArgumentOptionsSchema } from "../pipeline/amend.ts";
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
/** Whom a worker process serves: one tenant, then it dies; or any tenant of this host. */
export type Placement = (typeof PLACEMENTS)[number];

export const SHUTDOWN_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"] as const;
export type ShutdownSignal = (typeof SHUTDOWN_SIGNALS)[number];

export type Hardening =
  | "auto"
  | "strict"
  | {
      readonly require?: readonly Layer[] | undefined;
      readonly without?: readonly Layer[] | undefined;
      /** No machine code is made at run time, so V8's compilers cannot be attacked; computing takes about seven times as long. */
      readonly jitless?: boolean | undefined;
    };

/** Options of the JavaScript engine. Tools in Python have an `eval` and `exec` of their own, which these options do not concern. */
export interface EngineOptions {
  /**
   * Whether tools and sessions have `eval`, `Function` and its three siblings. Where it is false, these throw an `EvalError`, except in a
   * tool or session that is granted `stringToCode`.
   * @default true
   */
  readonly dynamicCode?: boolean | undefined;
}

/** What a process may end on in memory: where a container states less than the machine has, that counts. */
function machineMemoryMiB(): number {
  const constrained = process.constrainedMemory();
  const bytes = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.max(256, Math.floor((bytes / 1024 / 1024) * 0.75));
}

/** Which tools are on, and what holds for all of them. */
export interface ToolsOptions {
  /** False unless stated, where `tools` is stated at all: then no tool is listed or run that no flag turns on. */
  readonly enabled?: boolean | undefined;
  /** First-party tools that everybody has from the start, by name; `true` for all of them, none unless stated. */
  readonly builtinTools?: true | readonly BuiltinToolName[] | undefined;
  /** Wall time of a call, 1,000 to 300,000; with `limits.timeoutMs` the lower one. A tenant, tool or call can only lower it. */
  readonly executionTimeoutMs?: number | undefined;
  /** Calls of one tenant that `box.invoker` runs at one time, over all batches, 1 to 10; 10 unless stated. */
  readonly maxConcurrentTools?: number | undefined;
}

export interface PythonOptions {
  /**
   * Wheels of the host's: those that Python tools may import, out of a folder. Pure Python, or built for this version of Pyodide. No
   * tool has any unless it is named here.
   */
  readonly packages?: { readonly store: string; readonly allow: readonly string[] } | undefined;
  /** What `python_exec` is granted, as a tool's definition states it: `{ kv: {}, tools: ["words"] }`; nothing unless stated. */
  readonly capabilities?: CapabilityRequests | undefined;
}

/** What is probably wrong with a tool that was added. */
export interface ToolWarning {
  readonly toolName: string;
  readonly message: string;
}

/** All of it optional; the defaults are the safe ones. */
export interface GloveboxOptions {
  /** Which tools are on, and what holds for all; left out, every tool that the host adds is on. */
  readonly tools?: ToolsOptions | undefined;
  /**
   * Feature flags, which outrank `tools`: a function, or an OpenFeature client. A tool has two, `tools.enabled`, which all share, and
   * `tools.NAME`. It is off where one says false, on where one says true, and else what `tools.enabled` of the configuration says; left
   * out, that is off too. A flag that throws, or takes a second, is off, and `onError` hears why.
   */
  readonly flags?: Flags | undefined;
  /** For every call: a tool and a call can only lower them. */
  readonly limits?: PartialLimits | undefined;
  /** How long an isolate lives; `call` unless stated. */
  readonly isolation?: Isolation | undefined;
  /** Whom a worker process serves; `tenant` unless stated. */
  readonly placement?: Placement | undefined;
  /**
   * `"single"`: there is one tenant, and passing a `tenantId` anywhere is an error. `"multi"`: every method that concerns a tool, a call, a
   * session or a stored value requires `tenantId`; a tool of all tenants is added with `scope: "global"`. Default: `"single"`.
   */
  readonly tenancy?: TenancyMode | undefined;
  /** Policies of tenants, such as their limits and their share of the machine: a record, or a function that looks them up. */
  readonly tenants?: Tenants | undefined;
  /** How answers of an asynchronous `tenants` function are cached. */
  readonly tenantCache?: TenantCacheOptions | undefined;
  /**
   * What worker processes are wrapped in. `auto` unless stated: every layer that holds on this machine; `box.hardening` tells which.
   * `strict`: `createGlovebox` refuses to start where one is missing. Or name those without which it may not start, and those
   * to leave out.
   */
  readonly hardening?: Hardening | undefined;
  readonly bundler?:
    | {
        /** Folder that a tool's packages come from; without it each `node_modules` next to the tool or above it, up to `root`. */
        readonly store?: string | undefined;
        /** Highest folder in which packages are looked for; the working folder unless stated. */
        readonly root?: string | undefined;
        /**
         * Folders in which the packages of a workspace lie (npm, pnpm, yarn): the store may link to packages in them. Without it, a
         * package whose real path lies outside of the store is rejected.
         */
        readonly linkedPackages?: readonly string[] | undefined;
        /** Packages that tools may import; all of the store unless stated. */
        readonly allowPackages?: readonly string[] | undefined;
        readonly limits?: Partial<BundleLimits> | undefined;
      }
    | undefined;
  readonly workers?:
    | {
        /** Processes at most, 1 to 1,024. */
        readonly max?: number | undefined;
        /** Processes kept ready that nobody has used, 0 to 64. */
        readonly spares?: number | undefined;
        /** The same with a Python interpreter loaded, 0 to 16, from the first Python tool on; 1 unless stated. Each has some 300 MiB. */
        readonly pythonSpares?: number | undefined;
        /** Resident memory of all processes together, in MiB, from 256; three quarters of the machine's unless stated. */
        readonly memoryMiB?: number | undefined;
        /** Calls of all tenants that may wait, 0 to 1,000,000; 10,000 unless stated. */
        readonly maxQueued?: number | undefined;
      }
    | undefined;
  /** What tools in Python may import besides the standard library, and what `python_exec` may do. */
  readonly python?: PythonOptions | undefined;
  /** Bundles and code caches on disk; `false` keeps them in memory only. */
  readonly cache?:
    | false
    | {
        /** `~/.cache/glovebox` unless stated; `false` for none. */
        readonly directory?: string | false | undefined;
        /** Bytes that the folder may hold; 512 MiB unless stated. */
        readonly maxBytes?: number | undefined;
        /** Bytes that are kept in memory besides; 64 MiB unless stated. */
        readonly memoryBytes?: number | undefined;
      }
    | undefined;
  /**
   * Closes Glovebox when the process gets one of `signals`. Running calls have `drainMs` (in ms, default: 5,000) to finish, the rest end
   * with CANCELLED, and then the signal does what it would have done, unless the host listens to it too. Default: `signals: []`, which
   * installs no signal handler; `false` is the same.
   * @example { signals: ["SIGTERM"], drainMs: 10_000 }
   */
  readonly shutdown?:
    | false
    | { readonly signals?: readonly ShutdownSignal[] | undefined; readonly drainMs?: number | undefined }
    | undefined;
  /**
   * What `ctx.kv` keeps, for tools that are granted `kv`: a file (`~/.local/share/glovebox/kv.sqlite` unless stated, which every box of
   * this user shares), `"memory"`, or a store of the host's own.
   */
  readonly store?: "memory" | { readonly path: string } | KvStore | undefined;
  /** How often each tenant may call, unless its policy says otherwise. Default: as often as it will. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** What each tenant may use in a minute, hour, day or month, unless its policy says otherwise. Default: as much as it will. */
  readonly quotas?: QuotaOptions | undefined;
  /**
   * Keeps the counters of rates and quotas, for hosts of several processes. `close()` does not close it. Default: counters in memory, which
   * end with the process.
   */
  readonly quotaStore?: QuotaStore | undefined;
  /** Where tools with the capability `fetch` may send requests; nowhere unless stated. */
  readonly egress?: EgressOptions | undefined;
  /** What tools with the capability `secrets` may have sent for them, and to which hosts. */
  readonly secrets?: Secrets | undefined;
  /** Host functions that can be granted to tools. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Upstream MCP servers, whose tools are ours to call: each is started, or connected, when somebody wants its tools. */
  readonly mcp?: McpOptions | undefined;
  /** What is done with arguments that a tool would not take as they are; nothing unless stated. A tool and a call may state otherwise. */
  readonly arguments?: ArgumentOptions | undefined;
  /** The clock stands still while a tool's code runs, and moves when it gets an answer or a timer rings; false unless stated. */
  readonly coarseTime?: boolean | undefined;
  /** What of the JavaScript engine tools in JavaScript have without a grant. */
  readonly engine?: EngineOptions | undefined;
  /** When a source of tools that keeps failing is left alone for a while. */
  readonly health?: HealthOptions | undefined;
  /** Functions of the host's own around each stage of a call: they observe, amend or refuse. */
  readonly hooks?: readonly Hook[] | undefined;
  /** OpenTelemetry: `true` for the global providers, or the host's own. It needs `@opentelemetry/api`. */
  readonly telemetry?: true | TelemetryOptions | undefined;
  /** The operator's log: a pino of the host's own, pino's options, a level, or `true`; none unless stated. */
  readonly logger?: LoggerOption | undefined;
  /**
   * Receives what is probably a mistake, such as a tool that exports `parameters` in the place of `inputSchema`. Default: the `logger`, or
   * without one `process.emitWarning()`.
   */
  readonly onWarning?: ((warning: ToolWarning) => void) | undefined;
  /** Told of failures that a caller may not see the cause of. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export const CAPABILITY_RULE = "Expected what defineCapability() returns";
export const isCapability = (value: unknown): value is Capability =>
  typeof value === "object" && value !== null && typeof (value as Capability).checkInput === "function";
/** Capabilities of ours: a host's have other names. */
const OWN_NAMES = ["log", "fetch", "secrets", "kv", "tools", "elicit", "sample", "roots"] as const;
const isOurs = (name: string): boolean => (OWN_NAMES as readonly string[]).includes(name);
const haveOwnNames = (capabilities: readonly Capability[]): boolean =>
  new Set(capabilities.map(({ name }) => name)).size === capabilities.length &&
  capabilities.every(({ name, standsIn }) => !isOurs(name) || (standsIn === true && name !== "log"));
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

/** As long as the longest call. */
export const MAX_DRAIN_MS = 300_000;

const defaultStorePath = (): string => join(homedir(), ".local", "share", "glovebox", "kv.sqlite");
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

/** As a distribution may be called (packaging.python.org, "Names and normalization"). */
const PACKAGE_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/;

const OptionsSchema = strictObject({
  tools: ToolsSchema.optional(),
  flags: z.custom<Flags>(isFlags, "Expected a function, or a client with getBooleanDetails()").optional(),
  limits: PartialLimitsSchema.default({}),
  isolation: z.enum(ISOLATIONS).default("call"),
  placement: z.enum(PLACEMENTS).default("tenant"),
  ...tenancyFields,
  hardening: HardeningSchema.prefault("auto"),
  bundler: strictObject({
    store: z.string().min(1).optional(),
    root: z.string().min(1).optional(),
    linkedPackages: z.array(z.string().min(1)).optional(),
    allowPackages: z.array(z.string().min(1)).optional(),
    limits: BundleLimitsSchema.optional(),
  }).default({}),
  workers: strictObject({
    max: z.int().min(1).max(1_024).default(16),
    spares: z.int().min(0).max(64).default(1),
    pythonSpares: z.int().min(0).max(16).default(1),
    memoryMiB: z.int().min(256).default(machineMemoryMiB),
    maxQueued: z.int().min(0).max(1_000_000).default(10_000),
  }).prefault({}),
  python: strictObject({
    packages: strictObject({
      store: z.string().min(1),
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
  store: z
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
    .refine(haveOwnNames, `Expected capabilities of different names, none of them ours: ${OWN_NAMES.join(", ")}`)
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

/** One process takes this many calls at a time; an owner with more gets another process, up to one for each core. */
export const CALLS_PER_WORKER = 16;
/** And so many more, whose callers wait for them: were they to wait for a place, both might wait for ever. */
export const NESTED_PER_WORKER = 16;
/** Isolates that one process may hold: those that run, those kept warm (see IsolatePool), those made ahead, and a few being disposed. */
export const ISOLATES_PER_WORKER: number = CALLS_PER_WORKER + NESTED_PER_WORKER + 16 + MAX_SPARES + 2;
export const WORKER_IDLE_MS = 60_000;
export const maxWorkersPerOwner = (): number => Math.max(1, availableParallelism());

/** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
export function parseConfig(options: GloveboxOptions = {}): Config {
  const config = parseOptions(OptionsSchema, options, "options");
  checkTenancyOptions(config);
  return config;
}

/** A tool's source as a host hands it in, with what the host supplies or overrides. */
export type ToolInput = (
  | { readonly path: string }
  | { readonly files: { readonly [path: string]: string }; readonly entry?: string | undefined }
  | {
      readonly source: string;
      /**
       * `script` for a script in sloppy mode: the body of a function of `input` and `ctx`, in JavaScript. It may return at its top level;
       * where it does not, the value of its last expression is the output.
       * @default "module"
       */
      readonly mode?: SourceMode | undefined;
    }
) & {
  /** What it is written in; by the extension of its file or entry unless stated, and TypeScript where there is none. */
  readonly language?: Language | undefined;
  /** Used when the definition has none. */
  readonly name?: string | undefined;
  /** Fields that the host supplies or overrides; `capabilities` named here, engine features included, are granted. */
  readonly definition?: DefinitionOverrides | undefined;
};

export interface AddToolOptions {
  /** The tenant that the tool belongs to, 1 to 1,024 characters. With `tenancy: "multi"`, this or `scope` is required. */
  readonly tenantId?: string | undefined;
  /** `"global"`: every tenant may call it. */
  readonly scope?: "global" | undefined;
  /** Capabilities and engine features granted by name. `log` always is. */
  readonly grant?: readonly string[] | undefined;
  /** For this tool, instead of the host's own. */
  readonly isolation?: Isolation | undefined;
  /** For this tool, before what the host states for all. */
  readonly arguments?: ArgumentOptions | undefined;
  /**
   * Whether the tool takes the place of one that the same owner has under its name, as `updateTool` does; without one it is added.
   * @default false
   */
  readonly replace?: boolean | undefined;
}

/** Options of `updateTool`. Nothing is taken over from the old version: what is left out has its default. */
export type UpdateToolOptions = Omit<AddToolOptions, "replace">;

export const LANGUAGES = ["javascript", "typescript", "python"] as const;
export type Language = (typeof LANGUAGES)[number];

const common = {
  language: z.enum(LANGUAGES).optional(),
  name: z.string().optional(),
  definition: DefinitionOverridesSchema.optional(),
};
const ToolInputSchema = z.union(
  [
    strictObject({ path: z.string().min(1), ...common }),
    strictObject({ files: z.record(z.string(), z.string()), entry: z.string().optional(), ...common }),
    strictObject({ source: z.string(), mode: z.enum(SOURCE_MODES).optional(), ...common }),
  ],
  "Expected { path }, { files, entry? } or { source }, each with an optional language, name and definition",
);
const toolOptionsShape = {
  ...ownerFields,
  grant: z.array(z.string()).default([]),
  isolation: z.enum(ISOLATIONS).optional(),
  arguments: ArgumentOptionsSchema.optional(),
};
const UpdateToolOptionsSchema = strictObject(toolOptionsShape);
const AddToolOptionsSchema = strictObject({ ...toolOptionsShape, replace: z.boolean().default(false) });
const InspectToolOptionsSchema = strictObject({
  ...ownerFields,
  grant: z.array(z.string()).default([]),
});
const CloseOptionsSchema = strictObject({ drainMs: z.int().min(0).max(MAX_DRAIN_MS).default(0) });

/** @throws {ToolError} PARAM_INVALID */
export function parseToolInput(input: unknown): ToolInput {
  return parseOptions(ToolInputSchema, input, "tool");
}

/** @throws {ToolError} PARAM_INVALID */
export function parseAddToolOptions(options: unknown = {}): z.infer<typeof AddToolOptionsSchema> {
  return parseOptions(AddToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID */
export function parseUpdateToolOptions(options: unknown = {}): z.infer<typeof UpdateToolOptionsSchema> {
  return parseOptions(UpdateToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID */
export function parseInspectToolOptions(options: unknown = {}): z.infer<typeof InspectToolOptionsSchema> {
  return parseOptions(InspectToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID */
export function parseCloseOptions(options: unknown = {}): z.infer<typeof CloseOptionsSchema> {
  return parseOptions(CloseOptionsSchema, options, "options");
}
