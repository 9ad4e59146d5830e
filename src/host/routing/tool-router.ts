// ToolRouter: the entry point of every call, and the place where tools, tool providers and hooks are registered.
import * as z from "zod";
import type { JsonSchema, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { CallContext, ToolCall, ToolResult } from "../contract/tool-call.ts";
import { createToolStream, type ToolStream } from "../contract/tool-stream.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import { createHostFunctionExecutor, type HostFunction } from "../executors/host-function.ts";
import type { CallSettings } from "../executors/warm-version.ts";
import { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import { type HookFailure, Hooks } from "../observability/hooks/hooks.ts";
import type { HostLog } from "../observability/operator-log.ts";
import { Clocks } from "../pipeline/clock.ts";
import type { NamedContext } from "../pipeline/read-context.ts";
import { digestOfTool, isSameDefinition } from "../pipeline/tool-digest.ts";
import { MemoryQuotaStore } from "../tenants/quotas/memory-quota-store.ts";
import { TenantQuotas } from "../tenants/quotas/tenant-quotas.ts";
import { Tenancy, type TenantFilter } from "../tenants/tenancy.ts";
import { TenantPolicies } from "../tenants/tenant-policies.ts";
import { TenantStates } from "../tenants/tenant-states.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { notifySafely } from "../util/host-callback.ts";
import { LinkedList } from "../util/linked-list.ts";
import type { CallChain } from "./call-chain.ts";
import { CallRunner, type Flight } from "./call-runner.ts";
import { type CheckedToolRegistry, toCheckedRegistry } from "./checked-registry.ts";
import { Discoveries } from "./discovery.ts";
import { type SourceHealth, SourceHealthRegistry } from "./health/source-health.ts";
import type { ListedTool } from "./listed-tool.ts";
import { type CallInfo, OpenCalls, type TrackedCall } from "./open-calls.ts";
import { type OpenTimeline, timelineOf } from "./open-timeline.ts";
import { toRegisteredTool } from "./registered-tool.ts";
import {
  checkHandler,
  type HostInput,
  type HostSchema,
  type HostToolDefinition,
  parseHostDefinition,
  parseRegisterOptions,
  type RegisterOptions,
} from "./registration.ts";
import { checkTool, type RegisteredTool } from "./registry.ts";
import { checkSource, parseRouterOptions, type ToolRouterOptions } from "./router-options.ts";
import { checkString, parseTenantFilter, parseTenantId, parseTenantScope, type TenantScope } from "./tenant-scope.ts";
import { ToolGate } from "./tool-gate.ts";
import { ToolListing } from "./tool-listing.ts";
import { AddedToolProvider, type SourceTransport } from "./tool-source.ts";

export type { HostToolDefinition, RegisterOptions } from "./registration.ts";
export type { ToolRouterOptions } from "./router-options.ts";

/**
 * Runs calls of registered tools. Disposing it ends them: running calls resolve with CANCELLED, later ones with TOOL_UNAVAILABLE.
 * @example
 * ```ts
 * import { ToolRouter } from "glovebox";
 * import * as z from "zod";
 *
 * await using router = new ToolRouter();
 * const inputSchema = z.object({ n: z.number() });
 * router.register("double", { description: "Doubles a number", inputSchema }, ({ n }) => n * 2);
 * const result = await router.execute({ id: "c1", toolName: "double", arguments: { n: 21 } });
 * console.log(result.success && result.output); // 42
 * ```
 */
export class ToolRouter implements AsyncDisposable {
  readonly registry: CheckedToolRegistry;
  readonly #clocks = new Clocks();
  readonly #inFlight = new LinkedList<Flight>();
  /** @internal calls that were accepted and have no result yet; a ToolInvoker adds those that wait for a slot */
  readonly calls: OpenCalls = new OpenCalls();
  /** Executors of versions that were updated or removed. Undefined before the first one, which saves each call a look-up. */
  #ended: WeakMap<ToolExecutor, "updated" | "removed"> | undefined;
  readonly #thread = new SchemaThread();
  readonly #gate: ToolGate | undefined;
  readonly #health: SourceHealthRegistry;
  readonly #sources = new Set<string>();
  readonly #discoveries: Discoveries;
  readonly #listing: ToolListing;
  /** Resolves the tenant that a method concerns, by the `tenancy` option. */
  readonly tenancy: Tenancy;
  /** Policies of tenants. */
  readonly tenants: TenantPolicies;
  readonly #ownPolicies: TenantPolicies | undefined;
  /** @internal whether a tenant is suspended or being deleted; with its quotas */
  readonly tenantStates: TenantStates;
  readonly #onInternalError: ((error: ToolError) => unknown) | undefined;
  readonly #hooks: Hooks | undefined;
  readonly #runner: CallRunner;

  /**
   * @param policies policies that belong to another router, which disposes them
   * @throws {ToolError} PARAM_INVALID, naming the path of each invalid option
   */
  constructor(options: ToolRouterOptions = {}, policies?: TenantPolicies) {
    const { registry, limits, tenancy, tenants, tenantCache, ...given } = parseRouterOptions(options);
    const { enabled, flags, health, onInternalError, hooks, telemetry, log, coarseTime, egress, secrets } = given;
    this.registry = toCheckedRegistry(registry);
    this.tenancy = new Tenancy(tenancy);
    const { rateLimit, quotas, quotaStore = new MemoryQuotaStore() } = given;
    const defaults = { coarseTime, egress, secrets, rateLimit, quotas };
    const cache = { ...tenantCache, onError: onInternalError };
    this.tenants = policies ?? new TenantPolicies(tenants, limits, defaults, cache);
    this.#ownPolicies = policies === undefined ? this.tenants : undefined;
    this.tenantStates =
      given.tenantStates ?? new TenantStates(new TenantQuotas({ store: quotaStore, onError: onInternalError }));
    const isOn = enabled ?? flags === undefined;
    // No gate is needed if all tools are enabled for every tenant.
    this.#gate =
      isOn && flags === undefined ? undefined : new ToolGate({ enabled: isOn, flags, onError: onInternalError });
    this.#health = new SourceHealthRegistry(health);
    this.#discoveries = new Discoveries(this.#health, onInternalError);
    this.#listing = new ToolListing({
      registry: this.registry,
      tenantStates: this.tenantStates,
      clocks: this.#clocks,
      discoveries: this.#discoveries,
      gate: this.#gate,
      limits,
    });
    this.#onInternalError = onInternalError;
    if (log !== undefined) this.#health.onChange = (change) => log.circuitChanged(change);
    this.#hooks = hooks.length === 0 ? undefined : new Hooks(hooks, (failure) => this.#reportHookFailure(failure, log));
    const observers = { hooks: this.#hooks, telemetry, log };
    this.#runner = new CallRunner({
      registry: this.registry,
      calls: this.calls,
      clocks: this.#clocks,
      thread: this.#thread,
      tenancy: this.tenancy,
      tenants: this.tenants,
      tenantStates: this.tenantStates,
      limits,
      arguments: given.arguments,
      gate: this.#gate,
      health: this.#health,
      discoveries: this.#discoveries,
      observerSources: Object.values(observers).some((observer) => observer !== undefined) ? observers : undefined,
      onInternalError,
      isUpdated: ({ executor }) => this.#ended?.get(executor) === "updated",
      hasEnded: ({ executor }) => this.#ended?.has(executor) === true,
    });
  }

  #reportHookFailure(failure: HookFailure, log: HostLog | undefined): void {
    log?.hookFailed(failure);
    const { hook, stage, reason, cause } = failure;
    notifySafely(this.#onInternalError, new ToolError("INTERNAL", `The hook ${hook} ${reason} at ${stage}`, { cause }));
  }

  /**
   * Adds a trusted function of the host as a tool. A schema is a JSON Schema, or the schema of a library that implements Standard Schema,
   * which then validates and transforms the arguments and the output of each call.
   * @throws {ToolError} PARAM_INVALID for a malformed name, a handler that is not a function, and a field or option that is unknown
   *   or of the wrong type; NAME_TAKEN if another tool has the name; BUNDLE_FAILED for a JSON Schema that cannot be used. With
   *   `tenancy: "multi"` also PARAM_INVALID without `tenantId` or `scope: "global"`
   */
  register<Input extends HostSchema = JsonSchema>(
    toolName: string,
    definition: HostToolDefinition<Input>,
    handler: HostFunction<HostInput<Input>>,
    options?: RegisterOptions,
  ): void {
    checkHandler(toolName, handler);
    const parsed = parseHostDefinition(definition);
    const executor = createHostFunctionExecutor(handler as HostFunction, {
      source: "host",
      sourceId: `host:${toolName}`,
      schemas: parsed.schemas,
    });
    const { tenantId, scope, ...rest } = parseRegisterOptions(options);
    this.#register(toolName, parsed.definition, executor, {
      ...rest,
      tenantId: this.tenancy.ownerOf({ tenantId, scope }),
    });
  }

  /**
   * Adds a tool provider with a transport of its own, such as an upstream server. Register its tools on the returned object. While the
   * provider keeps failing, a circuit breaker rejects calls of its tools without contacting it; see {@link ToolRouter.health}.
   * @param options none yet: each tool has its own owner, which {@link AddedToolProvider.register} names
   * @throws {ToolError} PARAM_INVALID for a malformed id, an invalid transport, or an option; NAME_TAKEN if another provider has the id
   */
  addToolProvider(id: string, transport: SourceTransport, options: NoOptions = {}): AddedToolProvider {
    checkSource(id, transport);
    parseOptions(NoOptionsSchema, options, "options");
    if (this.#sources.has(id))
      throw new ToolError("NAME_TAKEN", `A tool provider with the id "${id}" exists already; choose another id`);
    this.#sources.add(id);
    const { kind = "host", discovery } = transport;
    if (discovery !== undefined) this.#discoveries.add({ source: kind, sourceId: id, discovery });
    return new AddedToolProvider(id, transport, {
      ownerOf: (options) => this.tenancy.ownerOf(options),
      add: (toolName, definition, executor, options) => this.#register(toolName, definition, executor, options),
      remove: (toolName, tenantId, executor) => {
        const tool = this.registry.get(toolName, tenantId);
        if (tool?.executor === executor) this.registry.remove(toolName, tenantId);
      },
      dispose: () => {
        this.#sources.delete(id);
        this.#discoveries.delete(id);
        this.#health.forget(id);
      },
    });
  }

  #register(
    toolName: string,
    definition: Omit<ToolDefinition, "name">,
    executor: ToolExecutor,
    options: Omit<RegisterOptions, "scope">,
  ): void {
    const whole: ToolDefinition = { ...definition, name: toolName };
    this.add(toRegisteredTool(whole, executor, { ...options, hostLimits: definition.limits }));
  }

  /**
   * Adds a tool to the registry. Clears the health record of an earlier tool of this name. Throws as the registry does.
   * @internal the tool's tenant must be resolved
   */
  add(tool: RegisteredTool): void {
    this.registry.add(tool);
    this.#ended?.delete(tool.executor);
    this.#forgetHealthOf(tool);
  }

  /**
   * Removes the owner's tool of this name, with all versions of a release. Clears its health record and releases its warm isolates. Returns
   * false if the owner has no tool of this name.
   * @internal the tool's tenant must be resolved
   */
  remove(name: string, tenantId: string | undefined): boolean {
    const tool = this.registry.get(name, tenantId);
    if (!this.registry.remove(name, tenantId)) return false;
    if (tool !== undefined && tool.tenantId === tenantId)
      for (const version of tool.release?.tools ?? [tool]) this.#end(version, "removed");
    return true;
  }

  /**
   * Replaces the owner's tool of this name by another version, in one step. Calls that were admitted before end on the version that they
   * began with; later calls run the new one. Clears the health record of the old version and releases its warm isolates. Returns false and
   * changes nothing if the owner has no tool of this name. Throws as the registry does.
   * @throws {ToolError} PARAM_INVALID for a value that is not a registered tool
   */
  replace(tool: RegisteredTool): boolean {
    const name = checkTool(tool);
    const { tenantId, executor } = tool;
    const before = this.registry.get(name, tenantId);
    if (before === undefined || before.tenantId !== tenantId || !this.registry.replace(tool)) return false;
    if (before.executor !== executor) this.#end(before, "updated");
    this.#forgetHealthOf(tool);
    return true;
  }

  /**
   * Registers a release in one step. Versions that the release before it had, and this one has not, end with their running calls. Clears the
   * health record of the tool if a version was dropped, and that of an earlier tool of this name.
   * @internal the tool's tenant must be resolved
   */
  setRelease(tool: RegisteredTool): void {
    const { definition, tenantId, release } = tool;
    const before = this.registry.get(definition.name, tenantId);
    const isOwn = before !== undefined && before.tenantId === tenantId;
    if (!isOwn || !this.registry.replace(tool)) this.add(tool);
    const kept = new Set(release?.tools.map(({ executor }) => executor));
    const ended = isOwn ? (before.release?.tools ?? []) : [];
    for (const version of ended) if (!kept.has(version.executor)) this.#end(version, "updated");
  }

  /** Releases the warm isolates of a version, and clears its health record, which its running calls no longer change. */
  #end(version: RegisteredTool, how: "updated" | "removed"): void {
    this.#ended ??= new WeakMap();
    this.#ended.set(version.executor, how);
    version.executor.retire?.();
    this.#forgetHealthOf(version);
  }

  /** Clears the health record of a tool that ends, or that had this name before. Its source has another id in each language. */
  #forgetHealthOf({ definition, tenantId, executor }: RegisteredTool): void {
    const { source, sourceId } = executor;
    if (sourceId === `${source}:${definition.name}`) this.#health.forget(sourceId, tenantId);
  }

  /**
   * Lists calls that were accepted and have no result yet, oldest first: those of the tenant, or those of all tenants with `scope: "all"`.
   * The list includes nested calls, calls of a batch that wait for a slot, and streams that have started.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }` or `{ scope: "all" }`
   */
  listCalls(options?: TenantFilter): readonly CallInfo[] {
    const tenantId = this.tenancy.filterOf(parseTenantFilter(options));
    return this.calls.of(tenantId).map((call) => call.toInfo(this.#clocks.leftMsOf(call)));
  }

  /**
   * Returns what a call of a tenant has done so far: its stages, uses of capabilities and nested calls, with those under way. Undefined if the
   * tenant has no such call without a result, or its caller has not requested a timeline (`context.timeline`).
   * @param id `id` of {@link listCalls}, or the id that the caller chose: the newest call that has it
   * @throws {ToolError} PARAM_INVALID for an id that is not a string, or options other than `{ tenantId }`
   */
  getTimeline(id: string, options?: TenantScope): OpenTimeline | undefined {
    checkString(id, "id");
    const found = this.calls.find(id, this.tenancy.tenantOf(parseTenantScope(options).tenantId)).at(-1);
    return found === undefined ? undefined : timelineOf(found, this.calls);
  }

  /**
   * Returns the limits and settings of a tenant's calls of a tool.
   * @internal
   */
  async settingsOf(tool: RegisteredTool, tenantId: string): Promise<CallSettings> {
    const policy = await this.tenants.whenKnown(tenantId);
    return { limits: this.#listing.limitsOf(tool, policy), coarseTime: policy.coarseTime };
  }

  /**
   * Cancels a call of a tenant and its nested calls. Its result is CANCELLED with `details.reason: "cancelled_by_host"`. Returns false if the
   * tenant has no such call, or the call has its result already.
   * @param id `id` of {@link listCalls}, or the id that the caller chose, which cancels all of the tenant's calls with that id
   * @throws {ToolError} PARAM_INVALID for an id that is not a string, or options other than `{ tenantId }`
   */
  cancelCall(id: string, options?: TenantScope): boolean {
    checkString(id, "id");
    const found = this.calls.find(id, this.tenancy.tenantOf(parseTenantScope(options).tenantId));
    for (const call of found) {
      call.cancel();
      this.#clocks.cancel(call);
    }
    return found.length > 0;
  }

  /**
   * Returns the health of tool providers and of tools, by id: those that the tenant's tools and the global tools come from. For all tenants:
   * those of the global tools, all that were added, and all that fail for any tenant.
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "all" }` for all tenants
   * @throws {ToolError} PARAM_INVALID for other options
   */
  health(options?: TenantFilter): readonly SourceHealth[] {
    const tenantId = this.tenancy.filterOf(parseTenantFilter(options));
    const executors = this.registry.list(tenantId).map(({ executor }) => executor);
    return this.#health.list([...executors, ...this.#discoveries.listFor(tenantId)], tenantId);
  }

  /** Clears the health records of a tenant. Returns their number. @internal */
  forgetHealth(tenantId: string): number {
    return this.#health.forgetTenant(tenantId);
  }

  #tenantOf(options: TenantScope | undefined): string {
    return this.tenancy.tenantOf(parseTenantScope(options).tenantId);
  }

  /**
   * Removes a tenant's policy from the cache, so that the next call runs the `tenants` function again. A pending answer is used only for the
   * calls that wait for it already. Running calls keep the policy that they were admitted with.
   * @throws {ToolError} PARAM_INVALID for a `tenantId` that is not a string of 1 to 1,024 characters, and with `tenancy: "single"`
   */
  invalidateTenant(tenantId: string): void {
    this.tenants.invalidate(this.tenancy.tenantOf(parseTenantId(tenantId), "tenantId"));
  }

  /**
   * Returns the definitions of the tenant's tools and the global tools, sorted by name. Includes only tools that are known to be enabled: for
   * asynchronous flags use {@link ToolRouter.listTools}.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant
   */
  getRegisteredTools(options?: TenantScope): readonly ToolDefinition[] {
    return this.#listing.known(this.#tenantOf(options)).map(({ definition }) => definition);
  }

  /**
   * Returns the definitions of the tenant's tools and the global tools, sorted by name. Waits up to one second for asynchronous flags, and
   * queries tool providers within the router's `limits.timeoutMs` (300 s by default). The tools of a provider that fails are omitted;
   * {@link ToolRouter.health} lists the failure.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant;
   *   INTERNAL if the host's registry fails
   */
  listTools(options?: TenantScope): Promise<readonly ToolDefinition[]> {
    return deferFailure(async () =>
      (await this.#listing.find(this.#tenantOf(options))).map(({ definition }) => definition),
    );
  }

  /**
   * Returns the list of {@link listTools} with `metadata` for each tool: its digest and content hash, when it was added and updated, its
   * grants, owner and source, and the limits in effect for the tenant.
   * @throws {ToolError} as {@link listTools}; INTERNAL if the `tenants` option returns no valid policy for the tenant
   */
  describeTools(options?: TenantScope): Promise<readonly ListedTool[]> {
    return deferFailure(async () => {
      const tenantId = this.#tenantOf(options);
      return await this.#listing.describe(tenantId, await this.tenants.whenKnown(tenantId));
    });
  }

  /**
   * Returns the digest of a listed tool: the SHA-256 in hexadecimal of its definition, its source and, for a sandboxed tool, its code and
   * grants. A call with this digest as `context.toolDigest` runs this tool or fails. Returns undefined if the tenant no longer has a tool
   * with this definition.
   * @param definition a definition that `listTools` or `getRegisteredTools` returned
   * @throws {ToolError} PARAM_INVALID for a value that is not a definition, options other than `{ tenantId }`, and a missing or
   *   unexpected tenant
   */
  digestOf(definition: ToolDefinition, options?: TenantScope): string | undefined {
    const toolName = checkString(isPlainObject(definition) ? definition.name : undefined, "definition.name");
    const tenantId = this.#tenantOf(options);
    const tool = this.registry.get(toolName, tenantId);
    if (tool === undefined || !isSameDefinition(tool.definition, definition)) return undefined;
    return digestOfTool(tool);
  }

  /**
   * Returns whether a tenant has a tool of this name that is known to be enabled.
   * @throws {ToolError} PARAM_INVALID for a name that is not a string, options other than `{ tenantId }`, and a missing or
   *   unexpected tenant
   */
  hasTool(toolName: string, options?: TenantScope): boolean {
    checkString(toolName, "toolName");
    const tenantId = this.#tenantOf(options);
    if (this.registry.get(toolName, tenantId) === undefined) return false;
    return this.#gate === undefined || this.#gate.isEnabledNow({ tenantId, toolName });
  }

  /**
   * Runs one call and returns its result within its timeout, which includes queueing. Never throws and never rejects: every failure is a
   * ToolResult with a code. A call or context that has an unknown key or an invalid value, or that is not a plain object (a promise, an array,
   * a Map), fails with PARAM_INVALID; so does a context without `tenantId` with `tenancy: "multi"`, and one with it otherwise.
   * @param timeoutMs wall time in ms, 1 to 300,000; the lowest limit of host, tool, context and this parameter applies
   */
  execute(toolCall: ToolCall, context?: CallContext, timeoutMs?: number): Promise<ToolResult> {
    return this.#track((flight) => this.#runner.run(toolCall, context, timeoutMs, { flight }));
  }

  /**
   * Runs a call that a tool makes, as {@link execute} does, for the tenant of the calling tool. Also works while Glovebox is shutting down, so
   * that the calling tool can finish.
   * @internal
   */
  executeNested(toolCall: ToolCall, context: NamedContext, parent: CallChain): Promise<ToolResult> {
    return this.#track((flight) => this.#runner.run(toolCall, context, undefined, { flight, parent }));
  }

  /**
   * Runs a call that was accepted earlier and has waited for a slot or for its turn; see {@link execute}.
   * @param issue error with which the call fails, because it is malformed
   * @internal
   */
  executeAccepted(
    toolCall: ToolCall,
    context: CallContext,
    timeoutMs: number | undefined,
    accepted: TrackedCall | undefined,
    issue?: ToolError,
  ): Promise<ToolResult> {
    return this.#track((flight) => this.#runner.run(toolCall, context, timeoutMs, { flight, accepted, issue }));
  }

  /**
   * Runs one call and yields each chunk of its output as it arrives, as `{ type: "chunk", value }`; the last item is the call's ToolResult with
   * `type: "result"`. The call and its timeout start when the first item is requested. Never throws and never rejects.
   *
   * The tool pauses while too many of its chunks are unread. Leaving the loop early (`break`) cancels the call and waits until it has ended.
   * The stream of a tool that yields nothing has its result only.
   */
  stream(toolCall: ToolCall, context?: CallContext, timeoutMs?: number): ToolStream {
    return createToolStream((chunks, stop) =>
      this.#track((flight) => this.#runner.run(toolCall, context, timeoutMs, { flight, stream: { chunks, stop } })),
    );
  }

  /** Tracks a call, so that closing the router waits for it. A call that fails resolves in a later turn of the event loop. */
  async #track(run: (flight: Flight) => Promise<ToolResult>): Promise<ToolResult> {
    const flight: Flight = { running: undefined, tenantId: undefined, quotas: undefined };
    const slot = this.#inFlight.add(flight);
    try {
      flight.running = deferFailure(() => run(flight), hasFailed);
      const result = await flight.running;
      if (flight.quotas !== undefined) this.tenantStates.quotas.charge(flight.quotas, result.usage);
      return result;
    } finally {
      this.#inFlight.delete(slot);
    }
  }

  /** Resolves when all tracked calls that match have ended. */
  async #settled(fits: (flight: Flight) => boolean): Promise<void> {
    await Promise.allSettled(
      this.#inFlight
        .toArray()
        .filter(fits)
        .map(({ running }) => running),
    );
  }

  /**
   * Ends all calls of a tenant, including nested calls and calls that begin before it resolves.
   * @param reason the error in their results
   * @returns the number of calls
   * @internal
   */
  async endCalls(tenantId: string, reason: ToolError): Promise<number> {
    const isOf = (flight: Flight): boolean => flight.tenantId === tenantId;
    const count = this.#inFlight.toArray().filter(isOf).length;
    using _closed = this.#clocks.closeTenant(tenantId, reason);
    await this.#settled(isOf);
    return count;
  }

  /**
   * Stops accepting calls, which then fail with TOOL_UNAVAILABLE. Resolves when all running calls have ended, or after `withinMs`.
   * @param withinMs whole number of ms, 0 to 300,000
   * @throws {ToolError} PARAM_INVALID, as a rejection, for any other value
   */
  drain(withinMs: number): Promise<void> {
    return deferFailure(() => this.#drain(withinMs));
  }

  async #drain(withinMs: number): Promise<void> {
    parseOptions(DrainSchema, withinMs, "withinMs");
    this.#runner.isDraining = true;
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, withinMs);
    await Promise.race([this.#settled(() => true), late]);
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#clocks.close();
    this.#ownPolicies?.[Symbol.dispose]();
    await this.#settled(() => true);
    await this.#thread[Symbol.asyncDispose]();
  }

  /**
   * Stops waiting for hooks. Called if disposal takes too long.
   * @internal
   */
  forceClose(): void {
    this.#hooks?.stopWaiting();
  }
}

const hasFailed = ({ success }: ToolResult): boolean => !success;

/** An options object that can only be empty. */
type NoOptions = { readonly [name: string]: never };
const NoOptionsSchema = strictObject({});
const DrainSchema = z.int().min(0).max(LIMITS.timeoutMs.max);
