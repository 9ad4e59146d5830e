// createGlovebox(): the composition root. Every part is made here, and handed to those that need it.
import { createHash } from "node:crypto";
import {
  type BuiltinToolName,
  type BundledToolName,
  loadBuiltinBundles,
} from "../../bundler/artifacts/builtin-bundles.ts";
import { loadSandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import { Bundler } from "../../bundler/bundler.ts";
import {
  type BundleCache,
  CODE_CACHE_FACTOR,
  createBundleCache,
  engineKeyOf,
} from "../../bundler/cache/bundle-cache.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { callOf } from "../capabilities/call-scope.ts";
import { createAskCapabilities } from "../capabilities/client-requests.ts";
import { createEgress } from "../capabilities/fetch/egress.ts";
import { loadHttpClient } from "../capabilities/fetch/http-client.ts";
import { createKvCapability } from "../capabilities/kv/kv.ts";
import { MemoryKvStore } from "../capabilities/kv/kv-memory.ts";
import { SqliteKvStore } from "../capabilities/kv/kv-sqlite.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import { logCapability } from "../capabilities/log.ts";
import { createToolsCapability } from "../capabilities/tools.ts";
import { checkConfiguredPaths } from "../config/configured-paths.ts";
import { parseOptions } from "../config/option-errors.ts";
import {
  type AddToolOptions,
  CALLS_PER_WORKER,
  type Config,
  type GloveboxOptions,
  ISOLATES_PER_WORKER,
  maxWorkersPerOwner,
  NESTED_PER_WORKER,
  parseAddToolOptions,
  parseCloseOptions,
  parseConfig,
  parseInspectToolOptions,
  parseToolInput,
  parseUpdateToolOptions,
  type ToolInput,
  type ToolWarning,
  type UpdateToolOptions,
  WORKER_IDLE_MS,
} from "../config/options.ts";
import { packageVersion } from "../config/package-version.ts";
import type { ToolCall, ToolContext, ToolInvocation, ToolResult } from "../contract/tool-call.ts";
import type { ToolStream } from "../contract/tool-stream.ts";
import type { Executor } from "../executors/executor.ts";
import { Learner } from "../executors/extract-definition.ts";
import { createSandboxExecutor } from "../executors/sandbox.ts";
import { McpManager } from "../mcp/client/manager.ts";
import { createHostLog, type HostLog } from "../observability/operator-log.ts";
import { createTelemetry } from "../observability/telemetry/telemetry.ts";
import { contentHashOf, digestOfContent } from "../pipeline/tool-digest.ts";
import { PythonLearner } from "../python/extract-python-definition.ts";
import { loadPythonRuntime } from "../python/load-runtime.ts";
import { PYTHON_EXEC, pythonExecDefinition } from "../python/python-exec.ts";
import { PythonHost } from "../python/python-host.ts";
import { PYTHON_DEFAULT_LIMITS, withRuntimeFeatures } from "../python/python-tool.ts";
import type { SourceHealth } from "../routing/health/source-health.ts";
import type { ListedTool } from "../routing/listed-tool.ts";
import type { CallInfo } from "../routing/open-calls.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import {
  checkString,
  parseTenantReach,
  parseTenantScope,
  parseToolOwner,
  TenantIdSchema,
  type TenantScope,
} from "../routing/tenant-scope.ts";
import { type BatchContext, ToolInvoker } from "../routing/tool-invoker.ts";
import { ToolRouter, toRegisteredTool } from "../routing/tool-router.ts";
import { type ToolUpdate, ToolUpdates } from "../routing/tool-updates.ts";
import type { SessionInfo } from "../sessions/conversation.ts";
import type { Session } from "../sessions/session.ts";
import type { ParsedSessionOptions, SessionOptions } from "../sessions/session-options.ts";
import { Sessions } from "../sessions/sessions.ts";
import { createSessionToolExecutor } from "../sessions/tool-sessions.ts";
import { MemoryQuotaStore } from "../tenants/quotas/memory-quota-store.ts";
import { TenantQuotas } from "../tenants/quotas/tenant-quotas.ts";
import type { TenantReach, ToolOwner } from "../tenants/tenancy.ts";
import { TenantAdmission } from "../tenants/tenant-admission.ts";
import { type AddedTool, checkExportable, tenantLines } from "../tenants/tenant-export.ts";
import { type SuspendOptions, type TenantDeletion, TenantLifecycle } from "../tenants/tenant-lifecycle.ts";
import { TenantWork, type WorkHandle } from "../tenants/tenant-work.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { notifySafely } from "../util/host-callback.ts";
import { oldNodeMessage } from "../util/node-version.ts";
import { PendingByKey } from "../util/pending-by-key.ts";
import { EngineCache } from "../workers/engine-cache.ts";
import { Launcher } from "../workers/hardening/launcher.ts";
import type { HardeningReport } from "../workers/hardening/layers.ts";
import type { Inspector } from "../workers/inspected-isolate.ts";
import { v8FlagsOf } from "../workers/spawn/launch.ts";
import { WorkerPool } from "../workers/worker-pool.ts";
import { closeAll } from "./closing.ts";
import { closeOnSignals } from "./shutdown.ts";
import { type BuildableRegistration, ToolBuilder } from "./tool-builder.ts";
import { EnvironmentResolver, type Grants, type ToolEnvironment } from "./tool-environment.ts";

/** Calls end a second after they are told to at the latest, whatever their executor does; a host's hooks may take longer. */
const CALLS_CLOSE_MS = 1_500;
/** An upstream server that ignores its end is killed after 2 s. */
const PARTS_CLOSE_MS = 3_000;

/** What `inspect` shows of a tool: it has been bundled and learned, and is not registered. */
export interface ToolInspection {
  readonly definition: ToolDefinition;
  readonly bundle: ToolBundle;
  /** What is probably a mistake, such as a schema that is exported by another name than `inputSchema`. */
  readonly warnings: readonly string[];
  /** Paths on this machine that it was made from, or that were looked for in vain: a change of one may change the tool. */
  readonly files: readonly string[];
  readonly codeCacheBytes: number;
  readonly bundleMs: number;
  readonly learnMs: number;
  /** Whether nothing had to be bundled. */
  readonly cached: boolean;
}

/** How a built tool comes into the registry; `replace` also adds a tool that there is not yet. */
type Registering = "add" | "replace" | "update";

/** What is kept of an added tool for an export, besides what is registered. */
interface RememberedTool extends Pick<AddToolOptions, "isolation" | "arguments"> {
  readonly bundle?: ToolBundle | undefined;
  readonly isBuiltin: boolean;
}

type ParsedToolOptions = ReturnType<typeof parseUpdateToolOptions>;
/** The owner is resolved: undefined stands for all tenants. */
type OwnedToolOptions = Omit<ParsedToolOptions, "scope">;

function nothingToUpdate(toolName: string, tenantId: string | undefined): ToolError {
  const whose = tenantId === undefined ? "no global tool" : "no tool of this tenant";
  const message = `There is ${whose} named ${JSON.stringify(toolName)} to update; add it with addTool`;
  return unavailable("not_found", message, { details: { toolName } });
}

/** What first-party tools ask for, and have: which hosts a request may go to stays with `egress`. */
const BUILTIN_GRANTS: { readonly [Name in BuiltinToolName]?: readonly string[] } = {
  "http-get": ["fetch"],
  "run-js": ["stringToCode"],
};

/**
 * A running Glovebox. Dispose it (`await using`) or `close()` it: then its processes end, calls still in it get their results
 * (CANCELLED), and later ones TOOL_UNAVAILABLE.
 */
export class Glovebox implements AsyncDisposable {
  readonly router: ToolRouter;
  /** Invocations with a time of their own, one by one and in batches, over the same router. */
  readonly invoker: ToolInvoker;
  /** Upstream MCP servers. */
  readonly mcp: McpManager;
  readonly #config: Config;
  readonly #bundler: Bundler;
  readonly #builder: ToolBuilder;
  readonly #pool: WorkerPool;
  readonly #python: PythonHost;
  readonly #launcher: Launcher;
  readonly #surroundings: EnvironmentResolver;
  readonly #sessions: Sessions;
  readonly #log: HostLog | undefined;
  readonly #sessionRouter: ToolRouter;
  readonly #updates = new ToolUpdates();
  readonly #ownStore: KvStore | undefined;
  readonly #store: KvStore;
  readonly #lifecycle: TenantLifecycle;
  readonly #work = new TenantWork();
  readonly #kvPending = new PendingByKey();
  readonly #closingSignal = new AbortController();
  /** By executor: an update changes other fields of the registered tool. */
  readonly #added = new WeakMap<Executor, AddedTool>();
  readonly #onSignals: Disposable | undefined;
  #closed = false;
  #closing: Promise<void> | undefined;

  /** @internal use {@link createGlovebox} */
  constructor(parts: {
    readonly config: Config;
    readonly router: ToolRouter;
    readonly bundler: Bundler;
    readonly pool: WorkerPool;
    readonly cache: BundleCache;
    readonly learner: Learner;
    readonly python: PythonHost;
    readonly launcher: Launcher;
    /** Sessions are no tools that are listed. */
    readonly sessionRouter: ToolRouter;
    readonly log: HostLog | undefined;
  }) {
    this.#config = parts.config;
    this.#log = parts.log;
    this.router = parts.router;
    const { maxConcurrentTools } = parts.config.tools ?? {};
    this.invoker = new ToolInvoker(parts.router, { maxConcurrentTools });
    this.mcp = new McpManager(parts.router, { environment: process.env, version: packageVersion() });
    this.#bundler = parts.bundler;
    this.#pool = parts.pool;
    this.#python = parts.python;
    this.#launcher = parts.launcher;
    const { signals, drainMs } = parts.config.shutdown;
    this.#onSignals = signals.length === 0 ? undefined : closeOnSignals(this, signals, drainMs);
    const { store } = parts.config;
    // A store of the host's own is its to close.
    this.#ownStore =
      store === "memory" ? new MemoryKvStore() : "path" in store ? new SqliteKvStore(store.path) : undefined;
    this.#store = this.#ownStore ?? (store as KvStore);
    const kv = createKvCapability(this.#store, this.#kvPending);
    const egress = createEgress((context) => callOf(context).tenant);
    const own = [logCapability, ...egress, kv, createToolsCapability(parts.router), ...createAskCapabilities()];
    const all = [...own, ...parts.config.capabilities];
    this.#surroundings = new EnvironmentResolver(all, parts.config, parts.launcher);
    this.#builder = new ToolBuilder({
      ...parts,
      tenants: parts.router.tenants,
      ownerOf: (tenantId) => this.#surroundings.ownerOf(tenantId),
      featuresOf: (granted) => this.#surroundings.featuresOf(granted, "javascript"),
      refuseUnlimited: (features) => this.#surroundings.refuseUnlimited(features),
      refuseWhenClosed: () => this.#refuseWhenClosed(),
    });
    this.#sessionRouter = parts.sessionRouter;
    this.#sessions = new Sessions({
      router: parts.sessionRouter,
      tenancy: parts.router.tenancy,
      ...{ pool: this.#pool, bundler: this.#bundler, python: this.#python },
      toolOf: (options) => this.#sessionTool(options),
    });
    this.#lifecycle = new TenantLifecycle({
      ...{ router: parts.router, sessionRouter: parts.sessionRouter, invoker: this.invoker, sessions: this.#sessions },
      ...{ mcp: this.mcp, pool: this.#pool, cache: parts.cache, store: this.#store, work: this.#work },
      ...{ kvPending: this.#kvPending, closing: this.#closingSignal.signal },
      placement: parts.config.placement,
      ownerOf: (tenantId) => this.#surroundings.ownerOf(tenantId),
      isOwnGlobal: (tool) => this.#isOwnGlobal(tool),
    });
  }

  /** With one tenant, the tools that the host added for it are registered for all. */
  #isOwnGlobal(tool: RegisteredTool): boolean {
    return this.router.tenancy.mode === "single" && this.#added.get(tool.executor)?.isBuiltin === false;
  }

  /** Process ids of the workers, for the operator. */
  get workerPids(): readonly number[] {
    return this.#pool.pids;
  }

  /**
   * Sources of tools and whether they can be asked: those of a tenant's and the global tools. Of all tenants: those of the global tools, and
   * all that fail for any tenant.
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "all" }` for all tenants
   * @throws {ToolError} PARAM_INVALID for other options
   */
  health(options?: TenantReach): readonly SourceHealth[] {
    return this.router.health(options);
  }

  /**
   * Lists the tools that a tenant may call at present, by name: the definition of each with `metadata`, as `box.router.describeTools()`. Tools
   * whose flags answer within a second and tools of upstream servers are among them. `box.router.listTools()` returns the definitions alone.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant; INTERNAL if the `tenants` option gives no valid
   *   policy for the tenant
   */
  listTools(options?: TenantScope): Promise<readonly ListedTool[]> {
    return this.router.describeTools(options);
  }

  /** Which layers of hardening the worker processes are wrapped in on this machine. */
  get hardening(): HardeningReport {
    return this.#launcher.report;
  }

  /**
   * Bundles a tool, learns its definition in an isolate, and registers it.
   * @param options with `tenancy: "multi"`: `tenantId`, or `scope: "global"` for a tool of all tenants
   * @throws {ToolError} PARAM_INVALID for bad options, or a missing or unexpected tenant; NAME_TAKEN for a name that another tool has;
   *   BUNDLE_FAILED when it cannot be built or is no tool;
   *   TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED when its top level throws, hangs or runs away
   */
  addTool(tool: ToolInput, options?: AddToolOptions): Promise<ToolDefinition> {
    return deferFailure(() => {
      this.#refuseWhenClosed();
      const input = parseToolInput(tool);
      const { replace, ...chosen } = parseAddToolOptions(options);
      return this.#addOwned(input, this.#withOwner(chosen), replace ? "replace" : "add");
    });
  }

  /**
   * Updates a tool that was added before: bundles the new version, extracts its definition, makes warm isolates of it where the old version
   * has some, and switches to it in one step. Until then, and if any of that fails, the old version stays as it is. Calls that were admitted
   * before the switch end on the old version; the next call gets the new one. Sessions of a tool with `isolation: "session"` end when their
   * calls on the old version have ended, and the next call begins a new one. Of several updates of one tool the one that was requested last
   * stays; one that a later one has overtaken is built and not switched to.
   *
   * The owner is that of `options`, and its tool is found by the new version's name. The new version gets what `options` grant, nothing of what
   * the old one had.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "not_found"`) if the owner has no tool of this name; PARAM_INVALID if that tool is a
   *   host function or comes from an upstream server; and as {@link addTool}
   */
  updateTool(tool: ToolInput, options?: UpdateToolOptions): Promise<ToolDefinition> {
    return deferFailure(() => {
      this.#refuseWhenClosed();
      const input = parseToolInput(tool);
      return this.#addOwned(input, this.#withOwner(parseUpdateToolOptions(options)), "update");
    });
  }

  /** Adds a tool as part of its tenant's work, which a deletion of the tenant ends and waits for. */
  async #addOwned(input: ToolInput, options: OwnedToolOptions, how: Registering): Promise<ToolDefinition> {
    using work = this.#beginWork(options.tenantId);
    return await this.#add(input, options, how, undefined, work);
  }

  /**
   * Begins work for a tool's owner, which the deletion of that tenant waits for; undefined for a tool of all tenants.
   * @throws {ToolError} TOOL_UNAVAILABLE while the tenant is being deleted
   */
  #beginWork(owner: string | undefined): WorkHandle | undefined {
    const { tenancy, admission } = this.router;
    const tenantId = tenancy.mode === "single" ? tenancy.tenantOf(undefined) : owner;
    if (tenantId === undefined) return undefined;
    admission.checkAdding(tenantId);
    return this.#work.begin(tenantId, true);
  }

  /** @throws {ToolError} PARAM_INVALID if the options name no owner, or one that does not fit the `tenancy` */
  #withOwner({ tenantId, scope, ...chosen }: ParsedToolOptions): OwnedToolOptions {
    return { ...chosen, tenantId: this.router.tenancy.ownerOf({ tenantId, scope }) };
  }

  /** @internal the first-party tools that the host has named, for all tenants, with all that they ask for */
  async addBuiltinTools(names: readonly BuiltinToolName[], cache: BundleCache): Promise<void> {
    const bundled = names.filter((name): name is BundledToolName => name !== PYTHON_EXEC);
    const bundles = await loadBuiltinBundles(bundled, cache);
    // One after the other: learned side by side, each would wait for a process, and all for a core.
    for (const [index, name] of bundled.entries()) {
      const options = { grant: [...(BUILTIN_GRANTS[name] ?? [])], isolation: "call" as const };
      await this.#add({ source: "", name }, options, "add", bundles[index]);
    }
    if (names.includes(PYTHON_EXEC)) await this.#addPythonExec();
  }

  async #addPythonExec(): Promise<void> {
    this.#surroundings.refuseUnlimited(withRuntimeFeatures([]));
    const runs = await this.#python.snippets();
    const definition = pythonExecDefinition(this.#config.python.capabilities);
    // A call that names no conversation has an interpreter of its own.
    const built = { definition, authorLimits: undefined, runs };
    const tool = this.#toTool(built, this.#surroundings.grant([], { definition }), {}, { isolation: "session" });
    this.#remember(tool, { isBuiltin: true, isolation: "session" });
    this.router.add(tool);
  }

  /** @param prebuilt what is registered in the place of the input's own source */
  async #add(
    input: ToolInput,
    { tenantId, grant, isolation, arguments: argumentOptions }: OwnedToolOptions,
    how: Registering,
    prebuilt?: ToolBundle,
    work?: WorkHandle,
  ): Promise<ToolDefinition> {
    using update = this.#updates.begin();
    const grants = this.#surroundings.grant(grant, input);
    const built = await this.#builder.build(input, { tenantId, features: grants.features, prebuilt });
    this.#refuseWhenClosed();
    work?.check();
    const { definition } = built;
    const tool = this.#toTool(built, grants, input, { isolation, tenantId, arguments: argumentOptions });
    const isBuiltin = prebuilt !== undefined;
    this.#remember(tool, { bundle: built.bundle, isBuiltin, isolation, arguments: argumentOptions });
    if (how === "add") this.router.add(tool);
    else if (!(await this.#switchTo(tool, how, update, work))) return definition;
    update.done(definition.name, tenantId);
    for (const message of built.warnings) this.#warn({ toolName: definition.name, message });
    return definition;
  }

  /** Keeps what an export gives of a tool besides its definition. */
  #remember({ executor, granted = [] }: RegisteredTool, { bundle, isBuiltin, ...options }: RememberedTool): void {
    const { isolation = this.#config.isolation, arguments: argumentOptions } = options;
    this.#added.set(executor, {
      ...{ bundle, isBuiltin, addedAt: Date.now(), language: executor.source === "python" ? "python" : "javascript" },
      options: {
        ...{ grant: granted, isolation },
        ...(argumentOptions === undefined ? {} : { arguments: argumentOptions }),
      },
    });
  }

  #warn(warning: ToolWarning): void {
    const { onWarning } = this.#config;
    if (onWarning !== undefined) notifySafely(onWarning, warning);
    this.#log?.toolWarned(warning.toolName, warning.message);
    if (onWarning !== undefined || this.#log !== undefined) return;
    process.emitWarning(`${warning.toolName}: ${warning.message}`, { type: "GloveboxWarning" });
  }

  /** Returns false for a version that a later request has overtaken. @throws {ToolError} as `updateTool` does */
  async #switchTo(
    tool: RegisteredTool,
    how: "replace" | "update",
    update: ToolUpdate,
    work: WorkHandle | undefined,
  ): Promise<boolean> {
    const { name } = tool.definition;
    if (update.isOvertaken(name, tool.tenantId)) return false;
    this.#checkReplaceable(tool, how);
    let isSwitched = false;
    try {
      await this.#warmUp(tool);
      this.#refuseWhenClosed();
      work?.check();
      if (update.isOvertaken(name, tool.tenantId)) return false;
      // From here to its end no other code runs: each call finds the old version or the new one.
      const before = this.#checkReplaceable(tool, how);
      if (before === undefined) this.router.add(tool);
      else if (!this.router.replace({ ...tool, addedAt: before.addedAt, updatedAt: Date.now() })) {
        throw nothingToUpdate(name, tool.tenantId);
      }
      isSwitched = true;
    } finally {
      // What was made warm of a version that no call will run.
      if (!isSwitched) tool.executor.retire?.();
    }
    return true;
  }

  /**
   * Returns the tool whose place another one takes; undefined if the owner has none.
   * @throws {ToolError} TOOL_UNAVAILABLE, PARAM_INVALID
   */
  #checkReplaceable({ definition, tenantId }: RegisteredTool, how: "replace" | "update"): RegisteredTool | undefined {
    const { name } = definition;
    const found = this.router.registry.get(name, tenantId);
    // A tenant's lookup finds global tools too, and those are not the tenant's to replace.
    const before = found?.tenantId === tenantId ? found : undefined;
    if (before === undefined && how === "update") throw nothingToUpdate(name, tenantId);
    // A host function is trusted, and an upstream server's tool is that server's to change.
    if (before === undefined || before.contentDigest !== undefined) return before;
    const kind = before.executor.source === "mcp" ? "an upstream server's tool" : "a host's own tool";
    const rule = "only tools that addTool added can be replaced; remove it first, or choose another name";
    throw new ToolError("PARAM_INVALID", `"${name}" is ${kind}: ${rule}`);
  }

  /** Makes the new version ready where the old one is. */
  async #warmUp(tool: RegisteredTool): Promise<void> {
    const { executor, definition, tenantId } = tool;
    const before = this.router.registry.get(definition.name, tenantId);
    if (before === undefined || before.tenantId !== tenantId) return;
    await executor.warm?.follow(before.executor.warm, (caller) => this.router.settingsOf(tool, caller));
  }

  #toTool(
    { definition, asked = {}, authorLimits, runs }: BuildableRegistration,
    { granted, features }: Grants,
    input: Pick<ToolInput, "definition">,
    { isolation, tenantId, arguments: argumentOptions }: Omit<OwnedToolOptions, "grant">,
  ): RegisteredTool {
    const isPython = runs.python !== undefined;
    const grants = { granted, features: this.#surroundings.featuresOf(features, isPython ? "python" : "javascript") };
    const chosen = isolation ?? this.#config.isolation;
    const tool = {
      ...runs,
      ...this.#surroundings.of(definition, grants, asked),
      isolation: chosen,
      sourceId: `${isPython ? "python" : "sandbox"}:${definition.name}`,
    };
    const executor =
      chosen === "session"
        ? createSessionToolExecutor(tool, definition.name, this.#pool, this.#sessions.conversations)
        : createSandboxExecutor(tool, this.#pool);
    return toRegisteredTool(definition, executor, {
      ...(tenantId === undefined ? {} : { tenantId }),
      ...(isPython ? { defaultLimits: PYTHON_DEFAULT_LIMITS } : {}),
      hostLimits: input.definition?.limits,
      authorLimits,
      arguments: argumentOptions,
      contentDigest: digestOfContent(tool),
      contentHash: contentHashOf(tool),
      granted: [...granted.keys(), ...features].filter((name) => name !== logCapability.name).sort(),
    });
  }

  /**
   * Denies a tenant's calls, runs of its sessions included, until {@link resumeTenant}: TOOL_UNAVAILABLE with
   * `details.reason: "tenant_suspended"`. Kept in memory: a host that restarts suspends again. Twice is a no-op.
   * @param tenantId required with `tenancy: "multi"`, left out with `tenancy: "single"`
   * @param options `calls`: whether calls that run `"finish"`, with their nested calls, or `"cancel"`. Default: `"finish"`
   * @returns how many calls were cancelled; resolves when they have ended
   * @throws {ToolError} as a rejection: PARAM_INVALID; TOOL_UNAVAILABLE while the tenant is being deleted
   */
  suspendTenant(tenantId?: string, options?: SuspendOptions): Promise<number> {
    return deferFailure(() => this.#lifecycle.suspend(this.#tenantOf(tenantId), options));
  }

  /**
   * Lets a suspended tenant call again. Returns false if it was not suspended.
   * @throws {ToolError} PARAM_INVALID; TOOL_UNAVAILABLE while the tenant is being deleted
   */
  resumeTenant(tenantId?: string): boolean {
    return this.#lifecycle.resume(this.#tenantOf(tenantId));
  }

  /**
   * Removes all that a tenant owns: ends its calls (CANCELLED) and sessions, and removes its tools, stored values, cached artifacts, worker
   * processes, health records, MCP servers and quota counters. Meanwhile its calls are denied with TOOL_UNAVAILABLE and
   * `details.reason: "tenant_deleted"`. Afterwards the tenant is as one that was never seen: a suspension ends too. Deletions of one tenant
   * at one time share their receipt. With `tenancy: "single"`, its tools are those that were added with `addTool`.
   * @throws {ToolError} as a rejection: PARAM_INVALID, also for a KvStore without `deleteTenant()`, before anything is removed; INTERNAL if a
   *   part could not be removed: the tenant's calls stay denied until it is deleted again, or resumed
   */
  deleteTenant(tenantId?: string): Promise<TenantDeletion> {
    return deferFailure(() => {
      this.#refuseWhenClosed();
      return this.#lifecycle.delete(this.#tenantOf(tenantId));
    });
  }

  /**
   * Gives all that a tenant owns as NDJSON, a line at a time, each with its `\n` and a `type`: `tenant` (its policy, without the values of
   * secrets), `tool`, `session`, `value` (`json` has the text of the value, `base64` its bytes), and at last `end`, with counts: an export
   * without it is not complete. Tools and sessions are those of the beginning; values are read as lines are asked for, so that one that is
   * written meanwhile may be missing. Nothing is read ahead. To leave early (`break`) releases everything.
   * @throws {ToolError} PARAM_INVALID, also for a KvStore without `entries()`; TOOL_UNAVAILABLE when Glovebox is closed or the tenant is
   *   being deleted, from the iteration too; INTERNAL from the iteration if the store fails
   */
  exportTenant(tenantId?: string): AsyncIterableIterator<string> {
    this.#refuseWhenClosed();
    const whose = this.#tenantOf(tenantId);
    checkExportable(this.#store);
    this.router.admission.checkAdding(whose);
    return this.#linesOf(whose);
  }

  async *#linesOf(tenantId: string): AsyncGenerator<string, void> {
    const { router } = this;
    // Asked again: the first line may be read long after the iterator was made.
    this.#refuseWhenClosed();
    router.admission.checkAdding(tenantId);
    using begun = this.#work.begin(tenantId, false);
    const work = {
      check: () => {
        this.#refuseWhenClosed();
        begun.check();
      },
    };
    const policy = await router.tenants.whenKnown(tenantId);
    work.check();
    yield* tenantLines({
      ...{ tenantId, policy, work, closing: this.#closingSignal.signal },
      tools: router.registry.list(tenantId).filter((tool) => tool.tenantId === tenantId || this.#isOwnGlobal(tool)),
      addedTool: (tool) => this.#added.get(tool.executor),
      sessions: this.#sessions.list(tenantId),
      store: this.#store,
    });
  }

  #tenantOf(tenantId: unknown): string {
    const parsed = tenantId === undefined ? undefined : parseOptions(TenantIdSchema, tenantId, "tenantId");
    return this.router.tenancy.tenantOf(parsed, "tenantId");
  }

  /**
   * Removes a tool; calls that have begun go on. Returns false when there was none.
   * @param options with `tenancy: "multi"`: `{ tenantId }` for a tool of that tenant, or `{ scope: "global" }` for one of all tenants
   * @throws {ToolError} PARAM_INVALID for a name that is not a string, and for other options
   */
  removeTool(toolName: string, options?: ToolOwner): boolean {
    const name = checkString(toolName, "toolName");
    const tenantId = this.router.tenancy.ownerOf(parseToolOwner(options));
    const tool = this.router.registry.get(name, tenantId);
    const isRemoved = this.router.registry.remove(name, tenantId);
    if (!isRemoved) return false;
    if (tool?.tenantId === tenantId) tool?.executor.retire?.();
    // An update that was requested before must not bring it back.
    using change = this.#updates.begin();
    change.done(name, tenantId);
    return true;
  }

  /** Bundles a tool and learns its definition, without registering it. Throws as `addTool` does. */
  inspectTool(
    tool: ToolInput,
    options?: Pick<AddToolOptions, "tenantId" | "scope" | "grant">,
  ): Promise<ToolInspection> {
    return deferFailure(async () => {
      this.#refuseWhenClosed();
      const { grant, ...owner } = parseInspectToolOptions(options);
      const tenantId = this.router.tenancy.ownerOf(owner);
      using _work = this.#beginWork(tenantId);
      const input = parseToolInput(tool);
      const { features } = this.#surroundings.grant(grant, input);
      const { runs, asked, authorLimits, ...built } = await this.#builder.build(input, { tenantId, features });
      return { ...built, codeCacheBytes: runs.python === undefined ? runs.codeCache.byteLength : 0 };
    });
  }

  /**
   * Opens a session: code that is run in one isolate, run after run, with what the runs before have left.
   * @throws {ToolError} PARAM_INVALID for an option that is wrong; NAME_TAKEN for a taken id; QUOTA_EXCEEDED when the tenant has as many as its
   *   limit `sessions` says; TOOL_UNAVAILABLE when the box is closed, or the machine cannot limit what was asked for
   */
  openSession(options?: SessionOptions): Promise<Session> {
    return deferFailure(() => {
      this.#refuseWhenClosed();
      return this.#sessions.open(options, this.#work);
    });
  }

  /**
   * Lists sessions, those of tools (`context.sessionId`) included.
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "all" }` for those of all tenants
   * @throws {ToolError} PARAM_INVALID for other options
   */
  listSessions(options?: TenantReach): readonly SessionInfo[] {
    return this.#sessions.list(this.router.tenancy.reachOf(parseTenantReach(options)));
  }

  /**
   * Ends a session of a tenant, with what runs in it. Returns false when the tenant has none of this id.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an id that is not a string, options other than `{ tenantId }`, and a missing or
   *   unexpected tenant
   */
  closeSession(id: string, options?: TenantScope): Promise<boolean> {
    return deferFailure(() => {
      const tenantId = this.router.tenancy.tenantOf(parseTenantScope(options).tenantId);
      return this.#sessions.close(checkString(id, "id"), tenantId);
    });
  }

  /**
   * Ends all sessions of a tenant. Returns how many there were.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for options other than `{ tenantId }`, and for a missing or unexpected tenant
   */
  closeSessions(options?: TenantScope): Promise<number> {
    return deferFailure(() =>
      this.#sessions.closeAll(this.router.tenancy.tenantOf(parseTenantScope(options).tenantId)),
    );
  }

  /**
   * Forgets what the `tenants` function answered about a tenant: the next call asks again. Call it when a stored policy changes; without it
   * the change counts once `tenantCache.ttlMs` has passed. Calls that run keep the policy that they were admitted with.
   * @throws {ToolError} PARAM_INVALID for a `tenantId` that is not text of 1 to 1,024 characters, and with `tenancy: "single"`
   */
  invalidateTenant(tenantId: string): void {
    this.router.invalidateTenant(tenantId);
  }

  #sessionTool({ language, grant }: ParsedSessionOptions): ToolEnvironment {
    const { granted, features } = this.#surroundings.grant(grant, {});
    const all = this.#surroundings.featuresOf(features, language === "python" ? "python" : "javascript");
    this.#surroundings.refuseUnlimited(all);
    const definition = { name: "session", description: "", inputSchema: {} };
    return this.#surroundings.of(definition, { granted, features: all }, {});
  }

  /**
   * Lists the calls that were accepted and have no result yet: those of the tenant, or with `scope: "all"` those of all tenants. Runs of
   * sessions, nested calls, calls of a batch that wait for a slot, and streams that have begun are among them.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }` or `{ scope: "all" }`
   */
  listCalls(options?: TenantReach): readonly CallInfo[] {
    const ofTools = this.router.listCalls(options);
    const tenantId = this.router.tenancy.reachOf(options ?? {});
    const ofSessions = this.#sessionRouter.listCalls(tenantId === undefined ? { scope: "all" } : { tenantId });
    const all = [...ofTools, ...ofSessions];
    return all.sort((a, b) => a.startedAt - b.startedAt);
  }

  /**
   * Ends a call of a tenant, with the calls that are nested in it: its result is CANCELLED with `details.reason: "cancelled_by_host"`. Returns
   * false if the tenant has no such call without a result.
   * @param id `id` of {@link listCalls}; or the id that its caller chose, which ends all of the tenant's calls with that id
   * @throws {ToolError} PARAM_INVALID for an id that is not a string, or options other than `{ tenantId }`
   */
  cancelCall(id: string, options?: TenantScope): boolean {
    const isTools = this.router.cancelCall(id, options);
    const tenantId = this.router.tenancy.tenantOf(options?.tenantId);
    const isSessions = this.#sessionRouter.cancelCall(id, { tenantId });
    return isTools || isSessions;
  }

  /** Runs one call: `box.router.execute()`. Always resolves. */
  execute(toolCall: ToolCall, context?: ToolContext, timeoutMs?: number): Promise<ToolResult> {
    return this.router.execute(toolCall, context, timeoutMs);
  }

  /** Runs one call and gives its chunks as they come, its result last: `box.router.stream()`. Never rejects. */
  stream(toolCall: ToolCall, context?: ToolContext, timeoutMs?: number): ToolStream {
    return this.router.stream(toolCall, context, timeoutMs);
  }

  /** Runs independent calls side by side: `box.invoker.executeBatch()`. Always resolves. */
  executeBatch(toolCalls: readonly (ToolCall | ToolInvocation)[], context?: BatchContext): Promise<ToolResult[]> {
    return this.invoker.executeBatch(toolCalls, context);
  }

  /**
   * Ends all calls, each with its result, and all processes, within 5 s after `drainMs`. A part that hangs longer (a disk, an upstream
   * server) is left behind and reported to `onError`; it does not keep the host's process alive. Twice is a no-op.
   * @param options `drainMs`: how long running calls may go on to their own end, in whole ms, 0 to 300,000. Default: 0
   * @throws {ToolError} PARAM_INVALID, as a rejection, for options that are wrong; nothing has been closed then
   */
  close(options?: { readonly drainMs?: number | undefined }): Promise<void> {
    return deferFailure(async () => {
      const { drainMs } = parseCloseOptions(options);
      this.#closed = true;
      if (drainMs > 0) await Promise.all([this.router.drain(drainMs), this.#sessionRouter.drain(drainMs)]);
      this.#closingSignal.abort();
      this.#closing ??= this.#closeParts();
      await this.#closing;
    });
  }

  async #closeParts(): Promise<void> {
    this.#onSignals?.[Symbol.dispose]();
    const dispose = (part: AsyncDisposable | undefined) => () => part?.[Symbol.asyncDispose]();
    const store = this.#ownStore;
    await closeAll(
      [
        // Calls have their results before what they run on goes.
        {
          withinMs: CALLS_CLOSE_MS,
          parts: [
            { name: "the running calls", close: dispose(this.router), abandon: () => this.router.abandon() },
            { name: "the sessions", close: dispose(this.#sessions), abandon: () => this.#sessions.abandon() },
          ],
        },
        {
          withinMs: PARTS_CLOSE_MS,
          parts: [
            { name: "the upstream MCP servers", close: dispose(this.mcp) },
            { name: "the bundler", close: dispose(this.#bundler) },
            { name: "the worker processes", close: dispose(this.#pool) },
          ],
        },
        {
          parts: [
            {
              name: "the key-value store",
              close: () => store?.[Symbol.asyncDispose]?.(),
              abandon: () => (store instanceof SqliteKvStore ? store.abandon() : undefined),
            },
          ],
        },
      ],
      this.#config.onError,
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #refuseWhenClosed(): void {
    if (this.#closed) throw unavailable("closed", "Glovebox is closed");
  }
}

/**
 * Starts a Glovebox: a bundler, a pool of worker processes, a router.
 * @throws {ToolError} PARAM_INVALID for an option that is wrong, naming its path; TOOL_UNAVAILABLE on a Node older than 24, or a machine that
 *   lacks what `hardening` requires; INTERNAL for a broken installation
 * @example
 * ```ts
 * import { createGlovebox } from "glovebox";
 * await using box = await createGlovebox();
 * await box.addTool({ name: "double", source: "export default ({ n }) => ({ doubled: n * 2 })" });
 * const result = await box.execute({ id: "c1", toolName: "double", arguments: { n: 21 } });
 * console.log(result.success && result.output);
 * ```
 */
export function createGlovebox(options?: GloveboxOptions): Promise<Glovebox> {
  return deferFailure(() => openGlovebox(options, undefined));
}

/**
 * The same with workers whose isolates can be inspected, for a person at this host's terminal.
 * @internal
 */
export function createInspectedGlovebox(options: GloveboxOptions, inspector: Inspector): Promise<Glovebox> {
  return openGlovebox(options, inspector);
}

/** Whoever inspects may look at the isolate of the last call for as long as they like. */
const INSPECTED_IDLE_MS = 24 * 3_600_000;

async function openGlovebox(options: GloveboxOptions | undefined, inspector: Inspector | undefined): Promise<Glovebox> {
  const oldNode = oldNodeMessage();
  if (oldNode !== undefined) throw unavailable("unsupported", oldNode);
  const config = parseConfig(options);
  const { store: configuredStore } = config;
  const storePath = typeof configuredStore === "object" && "path" in configuredStore ? configuredStore.path : undefined;
  await checkConfiguredPaths({
    bundler: config.bundler,
    python: config.python,
    // The default file is for hosts whose tools use it: whether it can be made does not concern the others.
    storePath: options?.store === undefined ? undefined : storePath,
  });
  // Not in the middle of somebody's call.
  if (config.egress.allow.length > 0) loadHttpClient();
  const artifacts = await loadSandboxArtifacts();
  const { limits, tenants, coarseTime, egress, secrets, hardening, workers, bundler, onError, health, hooks } = config;
  const { tenancy, tenantCache, tools, flags } = config;
  const telemetry = config.telemetry === undefined ? undefined : await createTelemetry(config.telemetry);
  const log = config.logger === undefined ? undefined : await createHostLog(config.logger);
  const { cache: cacheOptions } = config;
  const cache = createBundleCache(cacheOptions);
  const cacheProblem = await cache.findProblem();
  if (cacheProblem !== undefined) {
    const message = `The cache folder (options.cache.directory) cannot be used: ${cacheProblem}. Builds are kept in memory only`;
    const warning = new ToolError("INTERNAL", message);
    log?.warned("cache.unusable", warning);
    notifySafely(onError, warning);
  }
  const preludeSha256 = createHash("sha256").update(artifacts.preludeSource).digest("hex");
  const engineKey = engineKeyOf([...v8FlagsOf(hardening), preludeSha256]);
  const engineCacheOf = async (sha256: string, units: number): Promise<EngineCache> => {
    const known = await cache.getCodeCache(sha256, engineKey);
    return new EngineCache(
      CODE_CACHE_FACTOR * units,
      known,
      (made) => void cache.setCodeCache(sha256, engineKey, made),
    );
  };
  const [preludeCache, chunkCache] = await Promise.all([
    engineCacheOf(preludeSha256, artifacts.preludeSource.length),
    engineCacheOf(artifacts.chunks.sha256, artifacts.chunks.units),
  ]);
  const launcher = await Launcher.create({
    script: artifacts.workerPath,
    hardening,
    isolatesPerProcess: ISOLATES_PER_WORKER,
  });
  const pool = new WorkerPool(
    { ...artifacts, preludeCache, chunkCache, launcher, inspector },
    {
      ...workers,
      maxPerOwner: maxWorkersPerOwner(),
      callsPerWorker: CALLS_PER_WORKER,
      nestedPerWorker: NESTED_PER_WORKER,
      idleMs: inspector === undefined ? WORKER_IDLE_MS : INSPECTED_IDLE_MS,
    },
  );
  try {
    await pool.start();
  } catch (thrown) {
    await pool[Symbol.asyncDispose]();
    throw thrown;
  }
  const learner = new Learner({ pool, cache, engineKey });
  const routing = {
    limits: lowestTimeout(limits, tools?.executionTimeoutMs),
    tenancy,
    tenants,
    tenantCache,
    coarseTime,
    egress,
    secrets,
    health,
    ...{ hooks, telemetry, log },
    arguments: config.arguments,
    ...{ rateLimit: config.rateLimit, quotas: config.quotas },
    admission: new TenantAdmission(new TenantQuotas({ store: config.quotaStore ?? new MemoryQuotaStore(), onError })),
    ...(onError === undefined ? {} : { onInternalError: onError }),
  };
  const router = new ToolRouter({ ...routing, enabled: tools?.enabled, flags });
  // Its calls name the tenant of their session, whose policy is that of every other call.
  const sessionRouter = new ToolRouter({ ...routing, tenancy: "multi" }, router.tenants);
  const python = new PythonHost({
    learner: new PythonLearner(pool, cache),
    loadRuntime: () =>
      loadPythonRuntime({ artifacts, pool, cache, engineKey, coarseTime, packages: config.python.packages }),
  });
  const parts = {
    config,
    router,
    sessionRouter,
    python,
    bundler: new Bundler({ ...bundler, cache }),
    pool,
    cache,
    learner,
    launcher,
    log,
  };
  const box = new Glovebox(parts);
  try {
    for (const [name, server] of Object.entries(config.mcp.servers)) {
      box.mcp.add(name, server, `options.mcp.servers.${name}`);
    }
    // Without a flag, what is off stays off.
    if (tools?.enabled === true || flags !== undefined) await box.addBuiltinTools(tools?.builtinTools ?? [], cache);
  } catch (thrown) {
    await box.close();
    throw thrown;
  }
  return box;
}

const lowestTimeout = (limits: PartialLimits, timeoutMs: number | undefined): PartialLimits =>
  timeoutMs === undefined ? limits : { ...limits, timeoutMs: Math.min(timeoutMs, limits.timeoutMs ?? timeoutMs) };
