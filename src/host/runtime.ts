// createGlovebox(): the composition root. Every part is made here, and handed to those that need it.
import { createHash } from "node:crypto";
import { type BuiltinToolName, type BundledToolName, loadBuiltinBundles } from "../bundler/builtin-bundles.ts";
import { type BundleCache, CODE_CACHE_FACTOR, createBundleCache, engineKeyOf } from "../bundler/bundle-cache.ts";
import { Bundler } from "../bundler/bundler.ts";
import { loadSandboxArtifacts } from "../bundler/sandbox-artifacts.ts";
import type { ToolBundle } from "../bundler/tool-bundle.ts";
import type { ToolDefinition } from "../sandbox/definition.ts";
import { ToolError } from "../sandbox/errors.ts";
import type { PartialLimits } from "../sandbox/limits.ts";
import { createAskCapabilities } from "./capabilities/ask-client.ts";
import { createEgress } from "./capabilities/egress.ts";
import { loadHttpClient } from "./capabilities/http-client.ts";
import { createKvCapability } from "./capabilities/kv/kv.ts";
import { MemoryKvStore } from "./capabilities/kv/kv-memory.ts";
import { SqliteKvStore } from "./capabilities/kv/kv-sqlite.ts";
import type { KvStore } from "./capabilities/kv/kv-store.ts";
import { logCapability } from "./capabilities/log.ts";
import { createToolsCapability } from "./capabilities/tools.ts";
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
  type ToolInput,
  WORKER_IDLE_MS,
} from "./config.ts";
import { Learner } from "./executors/learn.ts";
import { createSandboxExecutor } from "./executors/sandbox.ts";
import type { SourceHealth } from "./health/source-health.ts";
import { createHostLog } from "./host-log.ts";
import { type BatchContext, ToolInvoker } from "./invoker.ts";
import { McpManager } from "./mcp/client/manager.ts";
import { packageVersion } from "./package-version.ts";
import { digestOfContent } from "./pipeline/tool-digest.ts";
import { DEFAULT_TENANT } from "./pipeline/validate.ts";
import { PythonLearner } from "./python/learn-python.ts";
import { loadPythonRuntime } from "./python/load-runtime.ts";
import { PYTHON_EXEC, pythonExecDefinition } from "./python/python-exec.ts";
import { PythonHost } from "./python/python-host.ts";
import { PYTHON_DEFAULT_LIMITS, withRuntimeFeatures } from "./python/python-tool.ts";
import { ToolRouter, toRegisteredTool } from "./router.ts";
import { checkString, parseTenantScope, type TenantScope } from "./routing/tenant-scope.ts";
import type { SessionInfo } from "./sessions/conversation.ts";
import type { Session } from "./sessions/session.ts";
import type { ParsedSessionOptions, SessionOptions } from "./sessions/session-options.ts";
import { Sessions } from "./sessions/sessions.ts";
import { createSessionToolExecutor } from "./sessions/tool-sessions.ts";
import { closeOnSignals } from "./shutdown.ts";
import { type Grants, type SurroundedTool, Surroundings } from "./surroundings.ts";
import { createTelemetry } from "./telemetry/telemetry.ts";
import { type Registrable, ToolBuilder } from "./tool-builder.ts";
import type { ToolCall, ToolContext, ToolInvocation, ToolResult } from "./tool-call.ts";
import type { ToolStream } from "./tool-stream.ts";
import { EngineCache } from "./workers/engine-cache.ts";
import { Launcher } from "./workers/hardening/launcher.ts";
import type { HardeningReport } from "./workers/hardening/layers.ts";
import type { Inspector } from "./workers/inspected-isolate.ts";
import { v8FlagsOf } from "./workers/launch.ts";
import { WorkerPool } from "./workers/worker-pool.ts";

/** What `inspect` shows of a tool: it has been bundled and learned, and is not registered. */
export interface ToolInspection {
  readonly definition: ToolDefinition;
  readonly bundle: ToolBundle;
  /** Paths on this machine that it was made from, or that were looked for in vain: a change of one may change the tool. */
  readonly files: readonly string[];
  readonly codeCacheBytes: number;
  readonly bundleMs: number;
  readonly learnMs: number;
  /** Whether nothing had to be bundled. */
  readonly cached: boolean;
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
  readonly #surroundings: Surroundings;
  readonly #sessions: Sessions;
  readonly #ownStore: KvStore | undefined;
  readonly #onSignals: Disposable | undefined;
  #closed = false;

  /** @internal use {@link createGlovebox} */
  constructor(parts: {
    readonly config: Config;
    readonly router: ToolRouter;
    readonly bundler: Bundler;
    readonly pool: WorkerPool;
    readonly learner: Learner;
    readonly python: PythonHost;
    readonly launcher: Launcher;
    /** Sessions are no tools that are listed. */
    readonly sessionRouter: ToolRouter;
  }) {
    this.#config = parts.config;
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
    const kv = createKvCapability(this.#ownStore ?? (store as KvStore));
    const egress = createEgress((tenantId) => parts.router.tenants.of(tenantId));
    const own = [logCapability, ...egress, kv, createToolsCapability(parts.router), ...createAskCapabilities()];
    const all = [...own, ...parts.config.capabilities];
    this.#surroundings = new Surroundings(all, parts.config, parts.launcher);
    this.#builder = new ToolBuilder({
      ...parts,
      tenants: parts.router.tenants,
      ownerOf: (tenantId) => this.#surroundings.ownerOf(tenantId),
      featuresOf: (granted) => this.#surroundings.featuresOf(granted, "javascript"),
      refuseUnlimited: (features) => this.#surroundings.refuseUnlimited(features),
      refuseWhenClosed: () => this.#refuseWhenClosed(),
    });
    this.#sessions = new Sessions({
      router: parts.sessionRouter,
      ...{ pool: this.#pool, bundler: this.#bundler, python: this.#python },
      toolOf: (options) => this.#sessionTool(options),
    });
  }

  /** Process ids of the workers, for the operator. */
  get workerPids(): readonly number[] {
    return this.#pool.pids;
  }

  /**
   * Sources of tools and whether they can be asked: those of a tenant's and the global tools. Without a tenant: those of the global tools,
   * and all that fail for any tenant.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }`
   */
  health(options?: TenantScope): readonly SourceHealth[] {
    return this.router.health(options);
  }

  /**
   * Definitions of the tools that a tenant may call at present: `box.router.listTools()`.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`
   */
  listTools(options?: TenantScope): Promise<readonly ToolDefinition[]> {
    return this.router.listTools(options);
  }

  /** Which layers of hardening the worker processes are wrapped in on this machine. */
  get hardening(): HardeningReport {
    return this.#launcher.report;
  }

  /**
   * Bundles a tool, learns its definition in an isolate, and registers it.
   * @throws {ToolError} PARAM_INVALID for bad options or a taken name; BUNDLE_FAILED when it cannot be built or is no tool;
   *   TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED when its top level throws, hangs or runs away
   */
  async addTool(tool: ToolInput, options?: AddToolOptions): Promise<ToolDefinition> {
    this.#refuseWhenClosed();
    return await this.#add(parseToolInput(tool), parseAddToolOptions(options));
  }

  /** @internal the first-party tools that the host has named, for everybody, with all that they ask for */
  async addBuiltinTools(names: readonly BuiltinToolName[], cache: BundleCache): Promise<void> {
    const bundled = names.filter((name): name is BundledToolName => name !== PYTHON_EXEC);
    const bundles = await loadBuiltinBundles(bundled, cache);
    // One after the other: learned side by side, each would wait for a process, and all for a core.
    for (const [index, name] of bundled.entries()) {
      const options = { grant: [...(BUILTIN_GRANTS[name] ?? [])], isolation: "call" as const };
      await this.#add({ source: "", name }, options, bundles[index]);
    }
    if (names.includes(PYTHON_EXEC)) await this.#addPythonExec();
  }

  async #addPythonExec(): Promise<void> {
    this.#surroundings.refuseUnlimited(withRuntimeFeatures([]));
    const runs = await this.#python.snippets();
    const definition = pythonExecDefinition(this.#config.python.capabilities);
    // A call that names no conversation has an interpreter of its own.
    const built = { definition, authorLimits: undefined, runs };
    this.#register(built, this.#surroundings.grant([], { definition }), {}, { isolation: "session" });
  }

  /** @param prebuilt what is registered in the place of the input's own source */
  async #add(
    input: ToolInput,
    { tenantId, grant, isolation, arguments: argumentOptions }: ReturnType<typeof parseAddToolOptions>,
    prebuilt?: ToolBundle,
  ): Promise<ToolDefinition> {
    const grants = this.#surroundings.grant(grant, input);
    const built = await this.#builder.build(input, { tenantId, features: grants.features, prebuilt });
    this.#refuseWhenClosed();
    const options = { isolation, tenantId, arguments: argumentOptions };
    this.#register(built, grants, input, options);
    return built.definition;
  }

  #register(
    { definition, asked = {}, authorLimits, runs }: Registrable,
    { granted, features }: Grants,
    input: Pick<ToolInput, "definition">,
    { isolation, tenantId, arguments: argumentOptions }: Omit<AddToolOptions, "grant">,
  ): void {
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
    this.router.add(
      toRegisteredTool(definition, executor, {
        ...(tenantId === undefined ? {} : { tenantId }),
        ...(isPython ? { defaultLimits: PYTHON_DEFAULT_LIMITS } : {}),
        hostLimits: input.definition?.limits,
        authorLimits,
        arguments: argumentOptions,
        contentDigest: digestOfContent(tool),
      }),
    );
  }

  /**
   * Removes a tenant's tool, or without a tenant a global one; calls that have begun go on. Returns false when there was none.
   * @throws {ToolError} PARAM_INVALID for a name that is not a string, or options other than `{ tenantId }`
   */
  removeTool(toolName: string, options?: TenantScope): boolean {
    return this.router.registry.remove(checkString(toolName, "toolName"), parseTenantScope(options).tenantId);
  }

  /** Bundles a tool and learns its definition, without registering it. Throws as `addTool` does. */
  async inspectTool(tool: ToolInput, options?: Pick<AddToolOptions, "tenantId" | "grant">): Promise<ToolInspection> {
    this.#refuseWhenClosed();
    const { tenantId, grant } = parseInspectToolOptions(options);
    const input = parseToolInput(tool);
    const { features } = this.#surroundings.grant(grant, input);
    const { runs, asked, authorLimits, ...built } = await this.#builder.build(input, { tenantId, features });
    return { ...built, codeCacheBytes: runs.python === undefined ? runs.codeCache.byteLength : 0 };
  }

  /**
   * Opens a session: code that is run in one isolate, run after run, with what the runs before have left.
   * @throws {ToolError} PARAM_INVALID for an option that is wrong or a taken id; QUOTA_EXCEEDED when the tenant has as many as its
   *   limit `sessions` says; TOOL_UNAVAILABLE when the box is closed, or the machine cannot limit what was asked for
   */
  async openSession(options?: SessionOptions): Promise<Session> {
    this.#refuseWhenClosed();
    return await this.#sessions.open(options);
  }

  /**
   * A tenant's sessions, those of its tools (`context.sessionId`) included; without a tenant those of all tenants.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }`
   */
  listSessions(options?: TenantScope): readonly SessionInfo[] {
    return this.#sessions.list(parseTenantScope(options));
  }

  /**
   * Ends a session of a tenant (of `default`, without one), with what runs in it. Returns false when the tenant has none of this id.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an id that is not a string, or options other than `{ tenantId }`
   */
  async closeSession(id: string, options?: TenantScope): Promise<boolean> {
    const { tenantId = DEFAULT_TENANT } = parseTenantScope(options);
    return await this.#sessions.close(checkString(id, "id"), tenantId);
  }

  /**
   * Ends all sessions of a tenant (of `default`, without one). Returns how many there were.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for options other than `{ tenantId }`
   */
  async closeSessions(options?: TenantScope): Promise<number> {
    const { tenantId = DEFAULT_TENANT } = parseTenantScope(options);
    return await this.#sessions.closeAll(tenantId);
  }

  #sessionTool({ language, grant }: ParsedSessionOptions): SurroundedTool {
    const { granted, features } = this.#surroundings.grant(grant, {});
    const all = this.#surroundings.featuresOf(features, language === "python" ? "python" : "javascript");
    this.#surroundings.refuseUnlimited(all);
    const definition = { name: "session", description: "", inputSchema: {} };
    return this.#surroundings.of(definition, { granted, features: all }, {});
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
   * Ends all calls, each with its result, and all processes. Twice is a no-op.
   * @param options `drainMs`: how long running calls may go on to their own end, in whole ms, 0 to 300,000. Default: 0
   * @throws {ToolError} PARAM_INVALID, as a rejection, for options that are wrong; nothing has been closed then
   */
  async close(options?: { readonly drainMs?: number | undefined }): Promise<void> {
    const { drainMs } = parseCloseOptions(options);
    this.#closed = true;
    if (drainMs > 0) await this.router.drain(drainMs);
    this.#onSignals?.[Symbol.dispose]();
    await this.router[Symbol.asyncDispose]();
    await this.#sessions[Symbol.asyncDispose]();
    await this.mcp[Symbol.asyncDispose]();
    await this.#bundler[Symbol.asyncDispose]();
    await this.#pool[Symbol.asyncDispose]();
    await this.#ownStore?.[Symbol.asyncDispose]?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #refuseWhenClosed(): void {
    if (this.#closed) throw new ToolError("TOOL_UNAVAILABLE", "Glovebox is closed");
  }
}

/**
 * Starts a Glovebox: a bundler, a pool of worker processes, a router.
 * @throws {ToolError} PARAM_INVALID for an option that is wrong, naming its path; INTERNAL for a broken installation
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
  return openGlovebox(options, undefined);
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
  const config = parseConfig(options);
  // Not in the middle of somebody's call.
  if (config.egress.allow.length > 0) loadHttpClient();
  const artifacts = await loadSandboxArtifacts();
  const { limits, tenants, coarseTime, egress, secrets, hardening, workers, bundler, onError, health, hooks } = config;
  const { tenancy, tools, flags } = config;
  const telemetry = config.telemetry === undefined ? undefined : await createTelemetry(config.telemetry);
  const log = config.logger === undefined ? undefined : await createHostLog(config.logger);
  const { cache: cacheOptions } = config;
  const cache = createBundleCache(cacheOptions);
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
    coarseTime,
    egress,
    secrets,
    health,
    ...{ hooks, telemetry, log },
    arguments: config.arguments,
    ...(onError === undefined ? {} : { onInternalError: onError }),
  };
  const router = new ToolRouter({ ...routing, enabled: tools?.enabled, flags });
  const sessionRouter = new ToolRouter(routing);
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
    learner,
    launcher,
  };
  const box = new Glovebox(parts);
  try {
    for (const [name, server] of Object.entries(config.mcp.servers)) box.mcp.add(name, server);
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
