// Types of the options of createGlovebox(). The schemas in options.ts validate them and state their defaults.
import type { BuiltinToolName } from "../../bundler/artifacts/builtin-bundles.ts";
import type { BundleLimits } from "../../bundler/tool-bundle.ts";
import type { CapabilityRequests } from "../../sandbox/contract/capability-requests.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import type { IsolateLifetime } from "../../sandbox/protocol/message-fields.ts";
import type { Capability } from "../capabilities/capability.ts";
import type { EgressOptions, Secrets } from "../capabilities/fetch/egress-policy.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import type { ExecutorsOptions } from "../fleet/fleet-options.ts";
import type { McpOptions } from "../mcp/client/mcp-options.ts";
import type { Hook } from "../observability/hooks/hook-events.ts";
import type { LoggerOption } from "../observability/operator-log.ts";
import type { TelemetryOptions } from "../observability/telemetry/telemetry-options.ts";
import type { ArgumentOptions } from "../pipeline/coercion.ts";
import type { HealthOptions } from "../routing/health/source-health.ts";
import type { Flags } from "../routing/tool-gate.ts";
import type { RunStore } from "../runs/run-store.ts";
import type { TenantCacheOptions } from "../tenants/policy-cache.ts";
import type { QuotaOptions, RateLimitOptions } from "../tenants/quotas/quota-options.ts";
import type { QuotaStore } from "../tenants/quotas/quota-store.ts";
import type { TenancyMode } from "../tenants/tenancy.ts";
import type { Tenants } from "../tenants/tenant-policies.ts";
import type { Layer } from "../workers/hardening/layers.ts";

export const PLACEMENTS = ["tenant", "shared"] as const;
/**
 * Which tenants a worker process serves: `"tenant"` for one tenant, after which the process ends, `"shared"` for all tenants of this host.
 */
export type Placement = (typeof PLACEMENTS)[number];

export const SHUTDOWN_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"] as const;
/** A signal on which a Glovebox can shut down. */
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
   * Maximum number of calls of one tenant that `glovebox.invoker` runs at the same time, across all batches, 1 to 10.
   * @default 10
   */
  readonly maxConcurrentTools?: number | undefined;
}

/** Options for tools written in Python. */
export interface PythonOptions {
  /** Packages that Python tools may import. Default: the standard library only. */
  readonly packages?:
    | {
        /** Folder of the wheels. A wheel must be pure Python, or built for the version of Pyodide in use. */
        readonly dir: string;
        /** Names of the packages that tools may import, at most 64. */
        readonly allow: readonly string[];
      }
    | undefined;
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
  /** Limits of every call. A tenant, tool or call can only lower them. Default: those of `LIMITS`. */
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
   * of a tenant. Default: every tenant has the policy that the other options describe.
   */
  readonly tenants?: Tenants | undefined;
  /** How long the results of an asynchronous `tenants` function are cached. Default: 30 s, for up to 10,000 tenants. */
  readonly tenantCache?: TenantCacheOptions | undefined;
  /**
   * Hardening of the worker processes. `"auto"`: every layer that works on this machine; `glovebox.hardening` reports which. `"strict"`:
   * `createGlovebox` fails if a layer is missing. An object names the layers to require and those to leave out.
   * @default "auto"
   */
  readonly hardening?: Hardening | undefined;
  /** How tools are built, and which packages they may import. Default: the defaults of its fields. */
  readonly bundler?:
    | {
        /** Folder that packages are loaded from. Default: every `node_modules` next to the tool and above it, up to `root`. */
        readonly packagesDir?: string | undefined;
        /** Topmost folder in which packages are looked up. Default: the current working directory. */
        readonly root?: string | undefined;
        /**
         * Workspace folders (npm, pnpm, yarn) that packages may be symlinked to. A package whose real path is outside the package folders
         * and these folders is rejected.
         * @default []
         */
        readonly linkedPackages?: readonly string[] | undefined;
        /** Names of the packages that tools may import. Default: all packages that are found. */
        readonly allowPackages?: readonly string[] | undefined;
        /** Limits of a build: sizes, number of modules and time. Default: those of `BundleLimits`. */
        readonly limits?: Partial<BundleLimits> | undefined;
      }
    | undefined;
  /** Size of the pool of worker processes. Default: the defaults of its fields. */
  readonly workers?:
    | {
        /**
         * Maximum number of worker processes at one time, 1 to 1,024.
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
         * 230 MiB.
         * @default 1
         */
        readonly warmPythonProcesses?: number | undefined;
        /** Resident memory of all processes together, in MiB, at least 256. Default: three quarters of the machine's memory. */
        readonly memoryMiB?: number | undefined;
        /**
         * Maximum number of calls of all tenants that wait in the queue, 0 to 1,000,000.
         * @default 10_000
         */
        readonly maxQueued?: number | undefined;
      }
    | undefined;
  /** Executors on other machines that run the calls of sandboxed tools. Default: none; all calls run on this machine. */
  readonly executors?: ExecutorsOptions | undefined;
  /** Packages that Python tools may import in addition to the standard library, and capabilities of `python_exec`. Default: none. */
  readonly python?: PythonOptions | undefined;
  /** Cache of bundles and V8 code caches. `false`: in memory only. Default: in memory and on disk. */
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
    | {
        /**
         * Signals that close Glovebox.
         * @default []
         */
        readonly signals?: readonly ShutdownSignal[] | undefined;
        /**
         * Longest time in ms that running calls may take to finish.
         * @default 5_000
         */
        readonly drainMs?: number | undefined;
      }
    | undefined;
  /**
   * Key-value store behind `ctx.kv`, for tools that are granted `kv`: a SQLite file, `"memory"`, or the host's own store, which `close()` does
   * not close. Default: `~/.local/share/glovebox/kv.sqlite`, which all Glovebox instances of the operating system's user share.
   */
  readonly kv?:
    | "memory"
    | {
        /** Path of the SQLite file. It is created when a tool first uses it. */
        readonly path: string;
      }
    | KvStore
    | undefined;
  /** How often each tenant may call. A tenant's policy replaces it. Default: no limit. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** How much each tenant may use in a minute, hour, day or month. A tenant's policy replaces it. Default: no limit. */
  readonly quotas?: QuotaOptions | undefined;
  /**
   * Store of the counters of `rateLimit` and `quotas`, for hosts that run several processes. `close()` does not close it. Default: counters in
   * memory, which are lost when the process ends.
   */
  readonly quotaStore?: QuotaStore | undefined;
  /**
   * Stores of durable runs and agents' journals whose data `deleteTenant` removes and `exportTenant` exports, in addition to the stores of open
   * `createRuns`: those with journals, and those of runs that another process continues. `close()` does not close them.
   * @default []
   */
  readonly runStores?: readonly RunStore[] | undefined;
  /** Where tools with the capability `fetch` may send requests. Default: nowhere. */
  readonly egress?: EgressOptions | undefined;
  /**
   * Secrets that the host adds to requests of tools with the capability `secrets`, and the hosts that may receive them. The tool never sees
   * the value. Default: none.
   */
  readonly secrets?: Secrets | undefined;
  /** Host functions that can be granted to tools, made with `defineCapability`. Default: none. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Upstream MCP servers, whose tools the router offers. Each is started, or connected to, when its tools are first needed. Default: none. */
  readonly mcp?: McpOptions | undefined;
  /** How arguments that do not match a tool's schema are coerced. Default: not at all. A tool and a call may override it. */
  readonly arguments?: ArgumentOptions | undefined;
  /**
   * Whether a tool's clock stands still while its code runs and advances only when a host call returns or a timer fires. This defeats
   * timing attacks.
   * @default false
   */
  readonly coarseTime?: boolean | undefined;
  /** Features of the JavaScript engine that tools have without a grant. Default: `{ dynamicCode: true }`. */
  readonly engine?: EngineOptions | undefined;
  /** When the circuit of a tool source that keeps failing opens. Default: after 5 failures in a row, for 10 s to 5 minutes. `false`: never. */
  readonly health?: HealthOptions | undefined;
  /** Functions of the host that run around each stage of a call: they observe, modify or reject it. Default: none. */
  readonly hooks?: readonly Hook[] | undefined;
  /** OpenTelemetry: `true` for the global providers, or options with the host's own. Requires `@opentelemetry/api`. Default: none. */
  readonly telemetry?: true | TelemetryOptions | undefined;
  /** Operator log: a pino instance, pino's options, a level, or `true`. Default: none. */
  readonly logger?: LoggerOption | undefined;
  /**
   * Receives probable mistakes, such as a tool that exports `parameters` instead of `inputSchema`. Default: the `logger`, or
   * `process.emitWarning()` if there is none.
   */
  readonly onWarning?: ((warning: ToolWarning) => void) | undefined;
  /** Receives failures whose cause must not be shown to the caller. Default: only the `logger` reports them. */
  readonly onError?: ((error: unknown) => void) | undefined;
}
