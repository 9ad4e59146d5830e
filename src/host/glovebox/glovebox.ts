// The Glovebox class: the public methods of a running Glovebox, each of which parses its arguments and calls the part that does the work.
import type { BuiltinToolName } from "../../bundler/artifacts/builtin-bundles.ts";
import type { Bundler } from "../../bundler/bundler.ts";
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { unavailable } from "../../sandbox/contract/errors.ts";
import { callOf } from "../capabilities/call-scope.ts";
import type { Capability } from "../capabilities/capability.ts";
import { createClientRequestCapabilities } from "../capabilities/client-requests.ts";
import { createEgress } from "../capabilities/fetch/egress-capabilities.ts";
import { createKvCapability } from "../capabilities/kv/kv.ts";
import { MemoryKvStore } from "../capabilities/kv/kv-memory.ts";
import { SqliteKvStore } from "../capabilities/kv/kv-sqlite.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import { logCapability } from "../capabilities/log.ts";
import { createToolsCapability } from "../capabilities/tools.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { Config } from "../config/options.ts";
import { packageVersion } from "../config/package-version.ts";
import {
  type AddToolOptions,
  parseAddToolOptions,
  parseInspectToolOptions,
  parseToolInput,
  parseUpdateToolOptions,
  type ToolInput,
  type ToolInspection,
  type UpdateToolOptions,
} from "../config/tool-options.ts";
import type { CallContext, ToolCall, ToolInvocation, ToolResult } from "../contract/tool-call.ts";
import type { ToolStream } from "../contract/tool-stream.ts";
import type { DefinitionExtractor } from "../executors/extract-definition.ts";
import type { DrainOutcome, FleetState } from "../fleet/control/fleet-state.ts";
import { McpManager } from "../mcp/client/manager.ts";
import type { HostLog } from "../observability/operator-log.ts";
import type { PythonHost } from "../python/python-host.ts";
import { type RehearsalOptions, type RehearsalReport, rehearse } from "../recording/rehearsal.ts";
import { type ReplayedCall, type ReplayOptions, replayCall } from "../recording/replay-call.ts";
import type { SourceHealth } from "../routing/health/source-health.ts";
import type { ListedTool } from "../routing/listed-tool.ts";
import type { CallInfo } from "../routing/open-calls.ts";
import type { OpenTimeline } from "../routing/open-timeline.ts";
import type { BatchContext } from "../routing/read-batch.ts";
import { compileSchemas } from "../routing/registered-tool.ts";
import {
  checkString,
  parseSessionScope,
  parseTenantFilter,
  parseTenantScope,
  parseToolOwner,
  type SessionScope,
  TenantIdSchema,
  type TenantScope,
} from "../routing/tenant-scope.ts";
import { ToolInvoker } from "../routing/tool-invoker.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import { RunStores } from "../runs/run-stores.ts";
import { createWaitForCapability } from "../runs/wait-for.ts";
import type { Session } from "../sessions/session.ts";
import type { ParsedSessionOptions, SessionOptions } from "../sessions/session-options.ts";
import type { SessionInfo } from "../sessions/session-state.ts";
import { Sessions } from "../sessions/sessions.ts";
import type { TenantFilter, ToolOwner } from "../tenants/tenancy.ts";
import { checkExportable, tenantLines } from "../tenants/tenant-export.ts";
import { type SuspendOptions, type TenantDeletion, TenantLifecycle } from "../tenants/tenant-lifecycle.ts";
import { TenantWork, type WorkHandle } from "../tenants/tenant-work.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { PendingByKey } from "../util/pending-by-key.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { Launcher } from "../workers/hardening/launcher.ts";
import type { HardeningReport } from "../workers/hardening/layers.ts";
import type { QuarantinedTool } from "../workers/health/crash-quarantine.ts";
import type { WorkerInfo } from "../workers/worker-info.ts";
import { closeParts, parseCloseOptions } from "./closing.ts";
import { type SecondaryToolList, SecondaryToolLists } from "./secondary-tool-lists.ts";
import { closeOnSignals } from "./shutdown.ts";
import { ToolBuilder } from "./tool-builder.ts";
import { EnvironmentResolver, type ToolEnvironment } from "./tool-environment.ts";
import {
  type OwnedToolOptions,
  type ParsedToolOptions,
  type RegistrationMode,
  ToolRegistrar,
} from "./tool-registrar.ts";
import { parseReleaseVersions, type ReleaseVersion, ToolReleases } from "./tool-releases.ts";

interface GloveboxDependencies {
  readonly config: Config;
  readonly router: ToolRouter;
  readonly bundler: Bundler;
  readonly pool: CallPool;
  readonly cache: BundleCache;
  readonly extractor: DefinitionExtractor;
  readonly python: PythonHost;
  readonly launcher: Launcher;
  /** Runs the calls of sessions, which are not listed as tools. */
  readonly sessionRouter: ToolRouter;
  /** Creates a router with the policies, hooks and limits of the main one, for tools of another list. */
  readonly openRouter: () => ToolRouter;
  readonly log: HostLog | undefined;
}

/** Returns the capabilities that a host can grant: those of Glovebox, and the host's own. */
function createCapabilities(config: Config, router: ToolRouter, kv: Capability): readonly Capability[] {
  return [
    logCapability,
    ...createEgress((context) => callOf(context).tenant),
    kv,
    createToolsCapability(router),
    ...createClientRequestCapabilities(),
    createWaitForCapability(),
    ...config.capabilities,
  ];
}

/**
 * A running Glovebox, returned by {@link createGlovebox}. Dispose it (`await using`) or call `close()`: both end its worker processes. Calls
 * that still run then end with CANCELLED, and later calls fail with TOOL_UNAVAILABLE.
 * @example
 * ```typescript
 * import { createGlovebox, type Glovebox } from "glovebox";
 *
 * async function shout(glovebox: Glovebox, text: string): Promise<string> {
 *   const result = await glovebox.execute({ id: "c1", toolName: "shout", arguments: { text } });
 *   return result.success ? String(result.output) : result.error.userMessage;
 * }
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ name: "shout", source: "export default ({ text }) => text.toUpperCase()" });
 * console.log(await shout(glovebox, "hello"));
 * ```
 */
export class Glovebox implements AsyncDisposable {
  /** Router that runs the calls: `glovebox.execute()` and `glovebox.stream()` are shortcuts to it. */
  readonly router: ToolRouter;
  /** Runs invocations with timeouts of their own, one at a time or in batches, on the same router. */
  readonly invoker: ToolInvoker;
  /** Manages the upstream MCP servers. */
  readonly mcp: McpManager;
  /** @internal Stores of durable runs, whose runs are deleted and exported with their tenant. */
  readonly runStores: RunStores;
  readonly #config: Config;
  readonly #bundler: Bundler;
  readonly #builder: ToolBuilder;
  readonly #pool: CallPool;
  readonly #python: PythonHost;
  readonly #launcher: Launcher;
  readonly #environments: EnvironmentResolver;
  readonly #sessions: Sessions;
  readonly #registrar: ToolRegistrar;
  readonly #releases: ToolReleases;
  readonly #sessionRouter: ToolRouter;
  readonly #secondaryToolLists: SecondaryToolLists;
  readonly #ownStore: KvStore | undefined;
  readonly #store: KvStore;
  readonly #lifecycle: TenantLifecycle;
  readonly #work = new TenantWork();
  readonly #kvPending = new PendingByKey();
  readonly #closingSignal = new AbortController();
  readonly #onSignals: Disposable | undefined;
  #closed = false;
  #closing: Promise<void> | undefined;

  /** @internal use {@link createGlovebox} */
  constructor(dependencies: GloveboxDependencies) {
    this.#config = dependencies.config;
    this.router = dependencies.router;
    const { maxConcurrentTools } = dependencies.config.tools ?? {};
    this.invoker = new ToolInvoker(dependencies.router, { maxConcurrentTools });
    this.mcp = new McpManager(dependencies.router, { environment: process.env, version: packageVersion() });
    this.#bundler = dependencies.bundler;
    this.#pool = dependencies.pool;
    this.#python = dependencies.python;
    this.#launcher = dependencies.launcher;
    const { signals, drainMs } = dependencies.config.shutdown;
    this.#onSignals = signals.length === 0 ? undefined : closeOnSignals(this, signals, drainMs);
    const { kv: store } = dependencies.config;
    // close() does not close a store that the host passed in.
    this.#ownStore =
      store === "memory" ? new MemoryKvStore() : "path" in store ? new SqliteKvStore(store.path) : undefined;
    this.#store = this.#ownStore ?? (store as KvStore);
    this.runStores = new RunStores(dependencies.config.runStores);
    const kv = createKvCapability(this.#store, this.#kvPending);
    const capabilities = createCapabilities(dependencies.config, dependencies.router, kv);
    this.#environments = new EnvironmentResolver(capabilities, dependencies.config, dependencies.launcher);
    this.#builder = new ToolBuilder({
      ...dependencies,
      tenants: dependencies.router.tenants,
      ownerOf: (tenantId) => this.#extractionOwnerOf(tenantId),
      featuresOf: (granted) => this.#environments.featuresOf(granted, "javascript"),
      checkFeatures: (features) => this.#environments.checkFeatures(features),
      throwIfClosed: () => this.#throwIfClosed(),
    });
    this.#sessionRouter = dependencies.sessionRouter;
    this.#secondaryToolLists = new SecondaryToolLists(dependencies.openRouter, {
      pool: this.#pool,
      bundler: this.#bundler,
      python: this.#python,
      environments: this.#environments,
      store: this.#store,
      kvPending: this.#kvPending,
    });
    this.#sessions = new Sessions({
      router: dependencies.sessionRouter,
      tenancy: dependencies.router.tenancy,
      pool: this.#pool,
      bundler: this.#bundler,
      python: this.#python,
      toolOf: (options) => this.#sessionTool(options),
    });
    this.#registrar = new ToolRegistrar({
      config: dependencies.config,
      router: dependencies.router,
      builder: this.#builder,
      environments: this.#environments,
      pool: dependencies.pool,
      python: dependencies.python,
      log: dependencies.log,
      openSessions: this.#sessions.openSessions,
      throwIfClosed: () => this.#throwIfClosed(),
    });
    this.#releases = new ToolReleases({
      ...dependencies,
      environments: this.#environments,
      openSessions: this.#sessions.openSessions,
    });
    this.#lifecycle = new TenantLifecycle({
      router: dependencies.router,
      sessionRouter: dependencies.sessionRouter,
      invoker: this.invoker,
      sessions: this.#sessions,
      mcp: this.mcp,
      pool: this.#pool,
      cache: dependencies.cache,
      bundler: this.#bundler,
      store: this.#store,
      work: this.#work,
      kvPending: this.#kvPending,
      runStores: this.runStores,
      closing: this.#closingSignal.signal,
      secondaryToolLists: this.#secondaryToolLists,
      placement: dependencies.config.placement,
      ownerOf: (tenantId) => this.#environments.ownerOf(tenantId),
      isOwnGlobal: (tool) => this.#registrar.isOwnGlobal(tool),
    });
  }

  /** The single tenant keeps the process that extracted a definition: its first call then starts none. */
  #extractionOwnerOf(owner: string | undefined): string | undefined {
    const tenantId = this.router.tenancy.tenantOfTool(owner);
    return tenantId === undefined ? undefined : this.#environments.ownerOf(tenantId);
  }

  /** Process ids of the worker processes, for monitoring. */
  get workerPids(): readonly number[] {
    return this.#pool.pids;
  }

  /**
   * The worker processes on this machine, for monitoring: what each is for, its isolates and its memory, as the host counts and measures them.
   * Those of {@link Glovebox.fleet | executors} are not included. The list is for the operator: it names all tenants.
   */
  get workers(): readonly WorkerInfo[] {
    return this.#pool.workers;
  }

  /** The executors that are connected or were lost, and how many calls wait for one. All lists are empty without the option `executors`. */
  get fleet(): FleetState {
    return this.#pool.fleet ?? { executors: [], lost: [], queues: [], isReachable: true };
  }

  /**
   * Requests that an executor finishes its calls, accepts no others, and ends. Its process exits with 0.
   * @param executorId id of an executor in `glovebox.fleet.executors`
   * @returns `"draining"` when the executor has confirmed the request; `"unknown"` if no executor with this id is connected; `"unconfirmed"` if
   *   it has not confirmed it within `executors.silenceMs`
   * @throws {ToolError} as a rejection: PARAM_INVALID for an id that is not a string; TOOL_UNAVAILABLE if Glovebox is closed
   */
  drainExecutor(executorId: string): Promise<DrainOutcome> {
    return deferFailure(async () => {
      const id = checkString(executorId, "executorId");
      this.#throwIfClosed();
      return (await this.#pool.drainExecutor?.(id)) ?? "unknown";
    });
  }

  /** Tools whose calls run alone in a process, because one of their calls may have ended a process. */
  get quarantinedTools(): readonly QuarantinedTool[] {
    return this.#pool.quarantined;
  }

  /**
   * Returns the health of tool sources: of those that serve a tenant, global ones included. With `scope: "all"`: of the global sources, and of
   * all sources that fail for any tenant.
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "all" }` for all tenants
   * @throws {ToolError} PARAM_INVALID for other options
   */
  health(options?: TenantFilter): readonly SourceHealth[] {
    return this.router.health(options);
  }

  /**
   * Lists the tools that a tenant may call now, sorted by name. Each has its definition and `metadata`, as from
   * `glovebox.router.describeTools()`; `glovebox.router.listTools()` returns the definitions alone. Includes tools of
   * upstream servers. Excludes tools whose flags do not resolve within 1 s.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant; INTERNAL if
   *   the `tenants` option returns no valid policy for the tenant
   */
  listTools(options?: TenantScope): Promise<readonly ListedTool[]> {
    return this.router.describeTools(options);
  }

  /** Hardening layers of the worker processes on this machine: which are active, and why others are not. */
  get hardening(): HardeningReport {
    return this.#launcher.report;
  }

  /**
   * Bundles a tool, extracts its definition in an isolate, and registers it.
   * @param options with `tenancy: "multi"`: `tenantId`, or `scope: "global"` for a tool of all tenants
   * @returns the definition of the registered tool
   * @throws {ToolError} as a rejection: PARAM_INVALID for invalid options, or a missing or unexpected tenant; NAME_TAKEN if the owner has a tool
   *   of this name; BUNDLE_FAILED if the build fails or the bundle does not export a tool; TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT or
   *   SANDBOX_CRASHED if the tool's top level throws or exceeds a limit; TOOL_UNAVAILABLE if Glovebox is closed
   */
  addTool(tool: ToolInput, options?: AddToolOptions): Promise<ToolDefinition> {
    return deferFailure(() => {
      this.#throwIfClosed();
      const input = parseToolInput(tool);
      const { replace, ...chosen } = parseAddToolOptions(options);
      return this.#addOwned(input, this.#withOwner(chosen), replace ? "replace" : "add");
    });
  }

  /**
   * Replaces a tool that was added before: bundles the new version, extracts its definition, creates warm isolates of it where the old version
   * has some, and switches to it in one step. Until the switch, and if any step fails, the old version stays in use. Calls that were admitted
   * before the switch end on the old version; later calls get the new one. Sessions of a tool with `isolateLifetime: "session"` end when their
   * calls on the old version have ended, and the next call begins a new session. If several updates of one tool overlap, the one that was
   * requested last wins; an earlier one that finishes after it is built but not registered.
   *
   * The owner comes from `options`, and its tool is found by the name of the new version. The new version is granted what `options` grant, and
   * inherits no grants of the old version.
   * @returns the definition of the new version
   * @throws {ToolError} as a rejection: TOOL_UNAVAILABLE (`details.reason: "not_found"`) if the owner has no tool of this name; PARAM_INVALID if
   *   that tool is a host function or belongs to an upstream server; and the errors of {@link addTool}
   */
  updateTool(tool: ToolInput, options?: UpdateToolOptions): Promise<ToolDefinition> {
    return deferFailure(() => {
      this.#throwIfClosed();
      const input = parseToolInput(tool);
      return this.#addOwned(input, this.#withOwner(parseUpdateToolOptions(options)), "update");
    });
  }

  /** Adds a tool as part of its tenant's work: deleting the tenant aborts it and waits for it. */
  async #addOwned(input: ToolInput, options: OwnedToolOptions, mode: RegistrationMode): Promise<ToolDefinition> {
    using work = this.#beginWork(options.tenantId);
    return await this.#registrar.add(input, options, mode, undefined, work);
  }

  /**
   * Begins work for a tool's owner. Deleting the tenant waits until the handle is disposed. Returns undefined for a tool of all tenants.
   * @throws {ToolError} TOOL_UNAVAILABLE while the tenant is being deleted
   */
  #beginWork(owner: string | undefined): WorkHandle | undefined {
    const { tenancy, tenantStates } = this.router;
    const tenantId = tenancy.tenantOfTool(owner);
    if (tenantId === undefined) return undefined;
    tenantStates.checkAdding(tenantId);
    return this.#work.begin(tenantId, true);
  }

  /** @internal Adds first-party tools for all tenants, with all grants that they request. */
  async addBuiltinTools(names: readonly BuiltinToolName[], cache: BundleCache): Promise<void> {
    await this.#registrar.addBuiltinTools(names, cache);
  }

  /** @throws {ToolError} PARAM_INVALID if the options name no owner, or one that does not match the `tenancy` option */
  #withOwner({ tenantId, scope, ...chosen }: ParsedToolOptions): OwnedToolOptions {
    return { ...chosen, tenantId: this.router.tenancy.ownerOf({ tenantId, scope }) };
  }

  /**
   * Registers stored versions of a tool under one name, or replaces the release of this name in one step. The code of a version is loaded
   * when it first runs, so registering costs no build and no process. Each call runs the version that `context.toolVersion` names, or one by
   * weight; calls with the same `sessionId` stay on one version. Running calls end on the version that they began with. Listed is the
   * definition of the version with the largest weight. `removeTool` removes a release.
   * @param versions `inspectTool` returns the definition, the code and the hash of a version
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "global" }` for a tool of all tenants
   * @throws {ToolError} PARAM_INVALID for invalid versions or options; NAME_TAKEN if the owner has a tool of this name that is not a release;
   *   BUNDLE_FAILED for a schema that cannot be used; TOOL_UNAVAILABLE if Glovebox is closed or the tenant is being deleted
   */
  setRelease(toolName: string, versions: readonly ReleaseVersion[], options?: ToolOwner): void {
    this.#throwIfClosed();
    const name = checkString(toolName, "toolName");
    const tenantId = this.router.tenancy.ownerOf(parseToolOwner(options));
    if (tenantId !== undefined) this.router.tenantStates.checkAdding(tenantId);
    this.#releases.set(name, parseReleaseVersions(name, versions), tenantId);
  }

  /**
   * Denies all calls of a tenant, runs of its sessions included, with TOOL_UNAVAILABLE and `details.reason: "tenant_suspended"`, until
   * {@link resumeTenant}. The state is kept in memory: suspend the tenant again after a restart. Suspending it twice is a no-op.
   * @param tenantId required with `tenancy: "multi"`, left out with `tenancy: "single"`
   * @param options `calls`: whether running calls and their nested calls `"finish"` or are cancelled (`"cancel"`). Default: `"finish"`
   * @returns the number of cancelled calls, once they have ended
   * @throws {ToolError} as a rejection: PARAM_INVALID for invalid arguments; TOOL_UNAVAILABLE while the tenant is being deleted
   */
  suspendTenant(tenantId?: string, options?: SuspendOptions): Promise<number> {
    return deferFailure(() => this.#lifecycle.suspend(this.#tenantOf(tenantId), options));
  }

  /**
   * Lets a suspended tenant call tools again. Returns false if the tenant was not suspended.
   * @throws {ToolError} PARAM_INVALID for an invalid `tenantId`; TOOL_UNAVAILABLE while the tenant is being deleted
   */
  resumeTenant(tenantId?: string): boolean {
    return this.#lifecycle.resume(this.#tenantOf(tenantId));
  }

  /**
   * Deletes everything that a tenant owns: ends its calls (CANCELLED) and sessions, and removes its tools, stored values, cached artifacts, worker
   * processes, health records, MCP servers and quota counters, and the durable runs and agents' journals in the stores of open `createRuns` and
   * of `runStores`. Until that is done, its calls are denied with TOOL_UNAVAILABLE and `details.reason: "tenant_deleted"`. Afterwards the tenant
   * can start again from nothing; a suspension is lifted too. Concurrent deletions of one tenant resolve with the same receipt. With
   * `tenancy: "single"`, the deleted tools are those that were added with `addTool`.
   *
   * It leaves what other processes have in memory, and what the host received and keeps: results, recordings, logs, traces, states of paused
   * agents, idempotency stores, and the policy that `tenants` returns. End the tenant's agents before the deletion.
   * @returns a receipt of what was removed
   * @throws {ToolError} as a rejection: PARAM_INVALID for an invalid `tenantId`, or, before anything is removed, for a KvStore without
   *   `deleteTenant()`; INTERNAL if a part could not be removed: the tenant's calls stay denied until it is deleted again, or resumed
   */
  deleteTenant(tenantId?: string): Promise<TenantDeletion> {
    return deferFailure(() => {
      this.#throwIfClosed();
      return this.#lifecycle.delete(this.#tenantOf(tenantId));
    });
  }

  /**
   * Exports everything that a tenant owns as NDJSON. Yields one line at a time, each with its `\n` and a `type`: `tenant` (its policy, without
   * the values of secrets), `tool`, `session`, `run` (a durable run or an agent's journal, with its input and its entries as JSON texts), `value`
   * (text of the value in `json`, its bytes in `base64`), and finally `end` with counts. An export without `end` is incomplete. Tools and sessions
   * are a snapshot of the start. Runs and values are read on demand and not ahead, so one that is written during the export may be missing.
   * Leaving the loop early (`break`) releases all resources.
   * @throws {ToolError} PARAM_INVALID for an invalid `tenantId`, or a KvStore without `entries()`; TOOL_UNAVAILABLE if Glovebox is closed or the
   *   tenant is being deleted, also from the iteration; INTERNAL from the iteration if the store fails
   */
  exportTenant(tenantId?: string): AsyncIterableIterator<string> {
    this.#throwIfClosed();
    const tenant = this.#tenantOf(tenantId);
    checkExportable(this.#store);
    this.router.tenantStates.checkAdding(tenant);
    return this.#linesOf(tenant);
  }

  async *#linesOf(tenantId: string): AsyncGenerator<string, void> {
    const { router } = this;
    // Checked again, because the first line may be read long after the iterator was created.
    this.#throwIfClosed();
    router.tenantStates.checkAdding(tenantId);
    using begun = this.#work.begin(tenantId, false);
    const work = {
      check: () => {
        this.#throwIfClosed();
        begun.check();
      },
    };
    const policy = await router.tenants.whenKnown(tenantId);
    work.check();
    yield* tenantLines({
      tenantId,
      policy,
      work,
      closing: this.#closingSignal.signal,
      tools: router.registry
        .list(tenantId)
        .filter((tool) => tool.tenantId === tenantId || this.#registrar.isOwnGlobal(tool)),
      addedTool: (tool) => this.#registrar.exportDataOf(tool),
      sessions: this.#sessions.list(tenantId),
      store: this.#store,
      runStores: this.runStores,
    });
  }

  #tenantOf(tenantId: unknown): string {
    const parsed = tenantId === undefined ? undefined : parseOptions(TenantIdSchema, tenantId, "tenantId");
    return this.router.tenancy.tenantOf(parsed, "tenantId");
  }

  /**
   * Removes a tool. Calls that have begun continue. Returns false if there was no such tool.
   * @param options with `tenancy: "multi"`: `{ tenantId }` for a tool of that tenant, or `{ scope: "global" }` for one of all tenants
   * @throws {ToolError} PARAM_INVALID for a name that is not a string, and for other options
   */
  removeTool(toolName: string, options?: ToolOwner): boolean {
    const name = checkString(toolName, "toolName");
    const tenantId = this.router.tenancy.ownerOf(parseToolOwner(options));
    return this.#registrar.remove(name, tenantId);
  }

  /**
   * Runs a recorded call again, without a request to any capability: its answers come from the recording. The tool must be registered, with
   * the recorded code or another version.
   * @param recording what `context.record.onRecording` received, as plain JSON. It is validated, since it may come from a file
   * @returns the result, and how it compares with the recording
   * @throws {ToolError} as a rejection: PARAM_INVALID for an invalid or incomplete recording, one of another tenant, and invalid options
   * @example
   * let recording;
   * await glovebox.execute(call, { record: { onRecording: (made) => { recording = made; } } });
   * const { verdict } = await glovebox.replay(recording); // "identical"
   */
  replay(recording: unknown, options?: ReplayOptions): Promise<ReplayedCall> {
    return deferFailure(() => replayCall(this.router, recording, options));
  }

  /**
   * Replays recorded calls on a version of their tool, and reports which outcomes differ: a check before a release.
   * @param recordings recordings as plain JSON, read one after another. Invalid ones are counted as skipped
   * @throws {ToolError} as a rejection: PARAM_INVALID for invalid options
   * @example
   * await glovebox.updateTool({ name: "price", source: newSource });
   * const { different, diverged, failed, groups } = await glovebox.rehearse(recordings);
   */
  rehearse(
    recordings: Iterable<unknown> | AsyncIterable<unknown>,
    options?: RehearsalOptions,
  ): Promise<RehearsalReport> {
    return deferFailure(() =>
      rehearse({ tenancy: this.router.tenancy, replay: (one, how) => this.replay(one, how) }, recordings, options),
    );
  }

  /**
   * Bundles a tool and extracts its definition, without registering it.
   * @throws {ToolError} as {@link addTool}
   */
  inspectTool(
    tool: ToolInput,
    options?: Pick<AddToolOptions, "tenantId" | "scope" | "grant">,
  ): Promise<ToolInspection> {
    return deferFailure(async () => {
      this.#throwIfClosed();
      const { grant, ...owner } = parseInspectToolOptions(options);
      const tenantId = this.router.tenancy.ownerOf(owner);
      using _work = this.#beginWork(tenantId);
      const input = parseToolInput(tool);
      const { features } = this.#environments.grant(grant, input);
      const { executable, requested, authorLimits, ...built } = await this.#builder.build(input, {
        tenantId,
        features,
      });
      // A tool that could not be added is not returned as if it could.
      compileSchemas(built.definition);
      return { ...built, codeCacheBytes: executable.python === undefined ? executable.codeCache.byteLength : 0 };
    });
  }

  /**
   * Opens a session: an isolate that runs code several times and keeps its state between the runs.
   * @throws {ToolError} as a rejection: PARAM_INVALID for invalid options; NAME_TAKEN if the id is in use; QUOTA_EXCEEDED if the tenant has as
   *   many sessions as its limit `sessions` allows; TOOL_UNAVAILABLE if Glovebox is closed, or the machine cannot limit a requested feature
   */
  openSession(options?: SessionOptions): Promise<Session> {
    return deferFailure(() => {
      this.#throwIfClosed();
      return this.#sessions.open(options, this.#work);
    });
  }

  /**
   * Lists sessions, including those that tools with `isolateLifetime: "session"` keep (`context.sessionId`).
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "all" }` for those of all tenants
   * @throws {ToolError} PARAM_INVALID for other options
   */
  listSessions(options?: TenantFilter): readonly SessionInfo[] {
    return this.#sessions.list(this.router.tenancy.filterOf(parseTenantFilter(options)));
  }

  /**
   * Closes a session of a tenant, with the calls that run in it. Returns false if the tenant has no session of this id.
   * @throws {ToolError} as a rejection: PARAM_INVALID for an id that is not a string, options other than `{ tenantId, toolName }`, and a
   *   missing or unexpected tenant
   */
  closeSession(id: string, options?: SessionScope): Promise<boolean> {
    return deferFailure(() => {
      const { tenantId, toolName } = parseSessionScope(options);
      return this.#sessions.close(checkString(id, "id"), this.router.tenancy.tenantOf(tenantId), toolName);
    });
  }

  /**
   * Closes all sessions of a tenant. Returns how many there were.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant
   */
  closeSessions(options?: TenantScope): Promise<number> {
    return deferFailure(() =>
      this.#sessions.closeAll(this.router.tenancy.tenantOf(parseTenantScope(options).tenantId)),
    );
  }

  /**
   * Drops the cached policy of a tenant, so that the next call runs the `tenants` function again. Call it when a stored policy changes. Without
   * it, the change takes effect after `tenantCache.ttlMs`. Running calls keep the policy that they were admitted with.
   * @throws {ToolError} PARAM_INVALID for a `tenantId` that is not a string of 1 to 1,024 characters, and with `tenancy: "single"`
   */
  invalidateTenant(tenantId: string): void {
    this.router.invalidateTenant(tenantId);
  }

  /**
   * Opens a list of tools of its own, such as a code mode's, which runs on the parts of this Glovebox and ends with it.
   * @param onTenantDeleted drops what the list keeps of a tenant
   * @internal
   */
  openSecondaryToolList(onTenantDeleted: (tenantId: string) => void): SecondaryToolList {
    this.#throwIfClosed();
    return this.#secondaryToolLists.open(onTenantDeleted);
  }

  #sessionTool({ language, grant }: ParsedSessionOptions): ToolEnvironment {
    const { granted, features } = this.#environments.grant(grant, {});
    const all = this.#environments.featuresOf(features, language === "python" ? "python" : "javascript");
    this.#environments.checkFeatures(all);
    const definition = { name: "session", description: "", inputSchema: {} };
    return this.#environments.of(definition, { granted, features: all }, {});
  }

  /**
   * Lists the admitted calls that have no result yet: those of the tenant, or with `scope: "all"` those of all tenants. Includes runs of
   * sessions, nested calls, calls of a batch that wait for a slot, and streams that have begun.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }` or `{ scope: "all" }`
   */
  listCalls(options?: TenantFilter): readonly CallInfo[] {
    const toolCalls = this.router.listCalls(options);
    const tenantId = this.router.tenancy.filterOf(options ?? {});
    const sessionCalls = this.#sessionRouter.listCalls(tenantId === undefined ? { scope: "all" } : { tenantId });
    const all = [...toolCalls, ...sessionCalls, ...this.#secondaryToolLists.listCalls(options)];
    return all.sort((a, b) => a.startedAt - b.startedAt);
  }

  /**
   * Cancels a call of a tenant, with its nested calls: its result is CANCELLED with `details.reason: "cancelled_by_host"`. Returns false if the
   * tenant has no such call without a result.
   * @param id `id` from {@link listCalls}; or the id that the caller chose, which cancels all of the tenant's calls with that id
   * @throws {ToolError} PARAM_INVALID for an id that is not a string, or options other than `{ tenantId }`
   */
  cancelCall(id: string, options?: TenantScope): boolean {
    const isToolCall = this.router.cancelCall(id, options);
    const tenantId = this.router.tenancy.tenantOf(options?.tenantId);
    const isSessionCall = this.#sessionRouter.cancelCall(id, { tenantId });
    const isSecondaryCall = this.#secondaryToolLists.cancelCall(id, options);
    return isToolCall || isSessionCall || isSecondaryCall;
  }

  /**
   * Returns what a call of a tenant has done so far: its stages, uses of capabilities and nested calls, with those under way. Undefined if the
   * tenant has no such call without a result, or its caller has not requested a timeline (`context.timeline`).
   * @param id `id` from {@link listCalls}; or the id that the caller chose: the newest call that has it
   * @throws {ToolError} PARAM_INVALID for an id that is not a string, or options other than `{ tenantId }`
   * @example
   * const { spans } = glovebox.getTimeline("call-1") ?? { spans: [] };
   * const underWay = spans.filter(({ isOpen }) => isOpen);
   */
  getTimeline(id: string, options?: TenantScope): OpenTimeline | undefined {
    const own = this.router.getTimeline(id, options);
    if (own !== undefined) return own;
    const tenantId = this.router.tenancy.tenantOf(options?.tenantId);
    const ofSession = this.#sessionRouter.getTimeline(id, { tenantId });
    if (ofSession !== undefined) return ofSession;
    for (const router of this.#secondaryToolLists.routers) {
      const found = router.getTimeline(id, options);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Runs one call, as `glovebox.router.execute()`. Never rejects: a failure is a result with `success: false`. */
  execute(toolCall: ToolCall, context?: CallContext, timeoutMs?: number): Promise<ToolResult> {
    return this.router.execute(toolCall, context, timeoutMs);
  }

  /** Runs one call and yields its chunks as they arrive, then its result, as `glovebox.router.stream()`. Never rejects. */
  stream(toolCall: ToolCall, context?: CallContext, timeoutMs?: number): ToolStream {
    return this.router.stream(toolCall, context, timeoutMs);
  }

  /** Runs independent calls concurrently, as `glovebox.invoker.executeBatch()`. Never rejects. */
  executeBatch(toolCalls: readonly (ToolCall | ToolInvocation)[], context?: BatchContext): Promise<ToolResult[]> {
    return this.invoker.executeBatch(toolCalls, context);
  }

  /**
   * Ends all calls, each with a result, and all processes, within 5 s after `drainMs`. A part that takes longer (a disk, an upstream server)
   * is abandoned and reported to `onError`; it does not keep the host process alive. Closing twice is a no-op.
   * @param options `drainMs`: how long running calls may take to finish, in whole ms, 0 to 300,000. Default: 0
   * @throws {ToolError} as a rejection: PARAM_INVALID for invalid options; nothing has been closed then
   */
  close(options?: { readonly drainMs?: number | undefined }): Promise<void> {
    return deferFailure(async () => {
      const { drainMs } = parseCloseOptions(options);
      this.#closed = true;
      const routers = [this.router, this.#sessionRouter, ...this.#secondaryToolLists.routers];
      if (drainMs > 0) await Promise.all(routers.map((router) => router.drain(drainMs)));
      this.#closingSignal.abort();
      this.#closing ??= this.#closeParts();
      await this.#closing;
    });
  }

  async #closeParts(): Promise<void> {
    this.#onSignals?.[Symbol.dispose]();
    await closeParts(
      {
        router: this.router,
        secondaryRouters: this.#secondaryToolLists.routers,
        sessions: this.#sessions,
        mcp: this.mcp,
        bundler: this.#bundler,
        pool: this.#pool,
        store: this.#ownStore,
      },
      this.#config.onError,
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #throwIfClosed(): void {
    if (this.#closed) throw unavailable("closed", "Glovebox is closed");
  }
}
