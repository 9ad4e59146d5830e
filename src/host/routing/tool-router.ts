// ToolRouter: the one way to a tool. validate → prepare → execute → normalize; always one ToolResult, never a throw.
import * as z from "zod";
import type { JsonSchema, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { type ErrorCode, ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { LIMITS, type Limits, type PartialLimits } from "../../sandbox/contract/limits.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { ToolCall, ToolContext, ToolResult, ToolUsage } from "../contract/tool-call.ts";
import { type ChunkQueue, type ChunkReading, createToolStream, type ToolStream } from "../contract/tool-stream.ts";
import { type ToolValue, toTextWithBytes } from "../contract/tool-value.ts";
import { isValueTooLarge } from "../contract/value-size.ts";
import type { Execution } from "../executors/execution.ts";
import type { Executor } from "../executors/executor.ts";
import { createHostFunctionExecutor, type HostFunction } from "../executors/host-function.ts";
import type { CallSettings } from "../executors/warm-version.ts";
import { compileSchema } from "../json-schema/compile-schema.ts";
import { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import { CallLog } from "../observability/call-log.ts";
import { CallObserver, type ObserverSources } from "../observability/call-observer.ts";
import { type HookFailure, Hooks } from "../observability/hooks/hooks.ts";
import type { HostLog } from "../observability/operator-log.ts";
import { Clocks } from "../pipeline/clock.ts";
import { type ArgumentOptions, parseArgumentOptions } from "../pipeline/coercion.ts";
import { executeCall } from "../pipeline/execute.ts";
import { normalize, type ResultMetadata, toFailure } from "../pipeline/normalize.ts";
import { type PrepareOptions, prepareCall, startCall } from "../pipeline/prepare.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { checkTimeout, type NamedContext, readContext } from "../pipeline/read-context.ts";
import { digestOfTool, isSameDefinition } from "../pipeline/tool-digest.ts";
import {
  type CallEnvelope,
  coerceCall,
  copyArguments,
  noSuchTool,
  readEnvelope,
  type ValidateOptions,
  validateCall,
} from "../pipeline/validate.ts";
import { withBytes } from "../tenants/call-meter.ts";
import { MemoryQuotaStore } from "../tenants/quotas/memory-quota-store.ts";
import type { QuotaPlan } from "../tenants/quotas/quota-options.ts";
import { TenantQuotas } from "../tenants/quotas/tenant-quotas.ts";
import { Tenancy, type TenantReach } from "../tenants/tenancy.ts";
import { TenantAdmission } from "../tenants/tenant-admission.ts";
import { TenantPolicies, type TenantPolicy } from "../tenants/tenant-policies.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { notifySafely } from "../util/host-callback.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { CallChain } from "./call-chain.ts";
import { type CheckedToolRegistry, toCheckedRegistry } from "./checked-registry.ts";
import { Discoveries } from "./discovery.ts";
import { type SourceHealth, SourceHealthRegistry } from "./health/source-health.ts";
import { type ListedTool, toListedTool } from "./listed-tool.ts";
import { type CallInfo, OpenCalls, type TrackedCall } from "./open-calls.ts";
import {
  checkHandler,
  type HostInput,
  type HostSchema,
  type HostToolDefinition,
  parseHostDefinition,
  parseRegisterOptions,
  type RegisterOptions,
} from "./registration.ts";
import type { RegisteredTool } from "./registry.ts";
import { checkSource, parseRouterOptions, type ToolRouterOptions } from "./router-options.ts";
import { checkString, parseTenantId, parseTenantReach, parseTenantScope, type TenantScope } from "./tenant-scope.ts";
import { ToolGate } from "./tool-gate.ts";
import { AddedToolProvider, type SourceTransport } from "./tool-source.ts";

export type { HostToolDefinition, RegisterOptions } from "./registration.ts";
export type { ToolRouterOptions } from "./router-options.ts";

interface RegistryEntry extends Omit<RegisterOptions, "scope"> {
  readonly defaultLimits?: PartialLimits | undefined;
  readonly hostLimits?: PartialLimits | undefined;
  readonly authorLimits?: PartialLimits | undefined;
  readonly contentDigest?: string | undefined;
  readonly contentHash?: string | undefined;
  readonly granted?: readonly string[] | undefined;
}

/** Schemas are compiled here, once. @throws {ToolError} BUNDLE_FAILED for a schema that cannot be used */
export function toRegisteredTool(definition: ToolDefinition, executor: Executor, entry: RegistryEntry): RegisteredTool {
  const { inputSchema, outputSchema } = definition;
  return {
    definition,
    tenantId: entry.tenantId,
    executor,
    inputSchema: compileSchema(inputSchema, { subject: "inputSchema" }),
    outputSchema: outputSchema === undefined ? undefined : compileSchema(outputSchema, { subject: "outputSchema" }),
    defaultLimits: entry.defaultLimits,
    hostLimits: entry.hostLimits,
    authorLimits: entry.authorLimits,
    arguments: parseArgumentOptions(entry.arguments, "options.arguments"),
    contentDigest: entry.contentDigest,
    contentHash: entry.contentHash,
    granted: entry.granted,
    addedAt: Date.now(),
  };
}

/** Dispose it to end its calls: those in it resolve with CANCELLED, later ones with TOOL_UNAVAILABLE. */
export class ToolRouter implements AsyncDisposable {
  readonly registry: CheckedToolRegistry;
  readonly #clocks = new Clocks();
  readonly #inFlight = new Set<Flight>();
  /** @internal accepted calls without a result; an invoker adds those that wait for a slot */
  readonly calls: OpenCalls = new OpenCalls();
  /** Executors of versions that an update has taken the place of. Undefined before the first update: then calls look nothing up. */
  #updated: WeakSet<Executor> | undefined;
  #isDraining = false;
  readonly #thread = new SchemaThread();
  readonly #limits: PartialLimits;
  readonly #gate: ToolGate | undefined;
  readonly #health: SourceHealthRegistry;
  readonly #sources = new Set<string>();
  readonly #discoveries: Discoveries;
  /** Which tenant a method is about, by the `tenancy` option. */
  readonly tenancy: Tenancy;
  /** Policies of tenants. */
  readonly tenants: TenantPolicies;
  readonly #ownPolicies: TenantPolicies | undefined;
  /** @internal which tenants may call at present, by their state, rate and quotas */
  readonly admission: TenantAdmission;
  readonly #onInternalError: ((error: ToolError) => unknown) | undefined;
  /** Undefined where nothing observes calls, which are faster then. */
  readonly #watching: ObserverSources | undefined;
  readonly #arguments: ArgumentOptions | undefined;
  readonly #hooks: Hooks | undefined;

  /**
   * @param policies those of another router, which disposes them
   * @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong
   */
  constructor(options: ToolRouterOptions = {}, policies?: TenantPolicies) {
    const { registry, limits, tenancy, tenants, tenantCache, ...given } = parseRouterOptions(options);
    const { enabled, flags, health, onInternalError, hooks, telemetry, log, coarseTime, egress, secrets } = given;
    this.registry = toCheckedRegistry(registry);
    this.#limits = limits;
    this.tenancy = new Tenancy(tenancy);
    const { rateLimit, quotas, quotaStore = new MemoryQuotaStore() } = given;
    const defaults = { coarseTime, egress, secrets, rateLimit, quotas };
    const cache = { ...tenantCache, onError: onInternalError };
    this.tenants = policies ?? new TenantPolicies(tenants, limits, defaults, cache);
    this.#ownPolicies = policies === undefined ? this.tenants : undefined;
    this.admission =
      given.admission ?? new TenantAdmission(new TenantQuotas({ store: quotaStore, onError: onInternalError }));
    const isOn = enabled ?? flags === undefined;
    // Where all tools are on for every tenant there is nothing to ask.
    this.#gate =
      isOn && flags === undefined ? undefined : new ToolGate({ enabled: isOn, flags, onError: onInternalError });
    this.#health = new SourceHealthRegistry(health);
    this.#discoveries = new Discoveries(this.#health, onInternalError);
    this.#onInternalError = onInternalError;
    if (log !== undefined) this.#health.onChange = (change) => log.circuitChanged(change);
    const asked = hooks.length === 0 ? undefined : new Hooks(hooks, (failure) => this.#hookFailed(failure, log));
    const parts = { hooks: asked, telemetry, log };
    this.#hooks = asked;
    this.#watching = Object.values(parts).some((part) => part !== undefined) ? parts : undefined;
    this.#arguments = given.arguments;
  }

  #hookFailed(failure: HookFailure, log: HostLog | undefined): void {
    log?.hookFailed(failure);
    const { hook, stage, reason, cause } = failure;
    notifySafely(this.#onInternalError, new ToolError("INTERNAL", `The hook ${hook} ${reason} at ${stage}`, { cause }));
  }

  /**
   * Adds a trusted host function as a tool. Its schemas are JSON Schema, or of any library that implements Standard Schema: the library
   * then validates and transforms each call's arguments and output.
   * @throws {ToolError} PARAM_INVALID for a malformed name, a handler that is not a function, or a field or option that is unknown
   *   or of the wrong type; NAME_TAKEN for a name that another tool has; BUNDLE_FAILED for a JSON Schema that cannot be used. With
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
   * Adds a source of tools with a transport of its own, such as an upstream server. Its tools are registered on the returned object. While
   * a source keeps failing, calls of its tools are answered without asking it: {@link ToolRouter.health}.
   * @throws {ToolError} PARAM_INVALID for a malformed id, or a transport that is wrong; NAME_TAKEN for an id that another source has
   */
  addToolProvider(id: string, transport: SourceTransport): AddedToolProvider {
    checkSource(id, transport);
    if (this.#sources.has(id))
      throw new ToolError("NAME_TAKEN", `There is a source with the id "${id}" already; choose another id`);
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
    executor: Executor,
    options: Omit<RegisterOptions, "scope">,
  ): void {
    const whole: ToolDefinition = { ...definition, name: toolName };
    this.add(toRegisteredTool(whole, executor, { ...options, hostLimits: definition.limits }));
  }

  /**
   * Puts a tool into the registry; what was known of the health of another one by its name is forgotten. Throws as the registry does.
   * @internal the tool's tenant has been resolved
   */
  add(tool: RegisteredTool): void {
    this.registry.add(tool);
    this.#forgetHealthOf(tool);
  }

  /**
   * Switches the owner's tool of this name to another version, in one step. Calls that were admitted before the switch end on the version that
   * they began with; the next call gets the new one. What was known of the health of the old version is forgotten, and what keeps it warm is
   * released. Returns false and changes nothing if the owner has no tool of this name. Throws as the registry does.
   */
  replace(tool: RegisteredTool): boolean {
    const { definition, tenantId, executor } = tool;
    const before = this.registry.get(definition.name, tenantId);
    if (before === undefined || before.tenantId !== tenantId || !this.registry.replace(tool)) return false;
    if (before.executor !== executor) {
      this.#updated ??= new WeakSet();
      this.#updated.add(before.executor);
      before.executor.retire?.();
    }
    this.#forgetHealthOf(tool);
    return true;
  }

  readonly #isUpdated = ({ executor }: RegisteredTool): boolean => this.#updated?.has(executor) === true;

  /** Of another tool of this name nothing is known. */
  #forgetHealthOf({ definition, tenantId, executor }: RegisteredTool): void {
    const { source, sourceId } = executor;
    if (sourceId === `${source}:${definition.name}`) this.#health.forget(sourceId, tenantId);
  }

  /**
   * Lists the calls that were accepted and have no result yet, in the order in which they were accepted: those of the tenant, or with
   * `scope: "all"` those of all tenants. Nested calls, calls of a batch that wait for a slot, and streams that have begun are among them.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }` or `{ scope: "all" }`
   */
  listCalls(options?: TenantReach): readonly CallInfo[] {
    const tenantId = this.tenancy.reachOf(parseTenantReach(options));
    return this.calls.of(tenantId).map((call) => call.toInfo(this.#clocks.leftMsOf(call)));
  }

  /**
   * Returns what a tenant's calls of a tool are run with.
   * @internal
   */
  async settingsOf(tool: RegisteredTool, tenantId: string): Promise<CallSettings> {
    const policy = await this.tenants.whenKnown(tenantId);
    return { limits: this.#limitsOf(tool, policy), coarseTime: policy.coarseTime };
  }

  #limitsOf({ hostLimits, authorLimits, defaultLimits }: RegisteredTool, { configuredLimits }: TenantPolicy): Limits {
    return resolveLimits([this.#limits, configuredLimits, hostLimits], authorLimits, defaultLimits);
  }

  /**
   * Ends a call of a tenant, with the calls that are nested in it: its result is CANCELLED with `details.reason: "cancelled_by_host"`. Returns
   * false if the tenant has no such call without a result.
   * @param id `id` of {@link listCalls}; or the id that its caller chose, which ends all of the tenant's calls with that id
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
   * Sources of tools and whether they can be asked, by id: those of the tenant's and the global tools. Of all tenants: those of the global
   * tools, those that were added, and all that fail for any tenant.
   * @param options with `tenancy: "multi"`: `{ tenantId }`, or `{ scope: "all" }` for all tenants
   * @throws {ToolError} PARAM_INVALID for other options
   */
  health(options?: TenantReach): readonly SourceHealth[] {
    const tenantId = this.tenancy.reachOf(parseTenantReach(options));
    const executors = this.registry.list(tenantId).map(({ executor }) => executor);
    return this.#health.list([...executors, ...this.#discoveries.listFor(tenantId)], tenantId);
  }

  /** Forgets the failures of sources for a tenant. Returns of how many sources that were. @internal */
  forgetHealth(tenantId: string): number {
    return this.#health.forgetTenant(tenantId);
  }

  /** Waits for a tenant's policy or quota within the call's own time, as far as that is known without them. */
  async #waitWithin<Value>(
    { tenantId, signal: caller, timeoutMs: contextMs }: NamedContext,
    { admittedAt, timeoutMs, tracked }: FindOptions,
    wait: (signal: AbortSignal) => Promise<Value>,
  ): Promise<Value> {
    const { toolName } = tracked;
    // With flags, how long it waits must not tell whether there is such a tool.
    const tool = this.#gate === undefined ? this.registry.get(toolName, tenantId) : undefined;
    const stated = [this.#limits, tool?.hostLimits, { timeoutMs: contextMs }, { timeoutMs }];
    const { timeoutMs: withinMs } = resolveLimits(stated, tool?.authorLimits, tool?.defaultLimits);
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller, tenantId, admittedAt, tracked });
    return await wait(clock.signal);
  }

  /** Before a call of an unknown name: asks the sources that the tool may come from, within the time of the call. */
  async #find(toolName: string, tenantId: string, context: ToolContext, options: FindOptions): Promise<void> {
    const asked = this.#discoveries.listWith(toolName, tenantId);
    if (asked.length === 0) return;
    const { admittedAt, timeoutMs, tracked } = options;
    const stated = [timeoutMs, context.timeoutMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const withinMs = Math.min(LIMITS.timeoutMs.max, ...stated);
    const { signal: caller } = context;
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller, tenantId, admittedAt, tracked });
    const outcomes = await Promise.allSettled(
      asked.map((source) => this.#discoveries.discover(source, tenantId, clock.signal)),
    );
    if (this.registry.get(toolName, tenantId) !== undefined) return;
    clock.signal.throwIfAborted();
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }

  #tenantOf(options: TenantScope | undefined): string {
    return this.tenancy.tenantOf(parseTenantScope(options).tenantId);
  }

  /**
   * Forgets what the `tenants` function answered about a tenant: the next call asks again. An answer that is still pending is used for the
   * calls that wait for it only. Calls that run keep the policy that they were admitted with.
   * @throws {ToolError} PARAM_INVALID for a `tenantId` that is not text of 1 to 1,024 characters, and with `tenancy: "single"`
   */
  invalidateTenant(tenantId: string): void {
    this.tenants.invalidate(this.tenancy.tenantOf(parseTenantId(tenantId), "tenantId"));
  }

  /**
   * Definitions of a tenant's and the global tools, by name. Only tools that are known to be on: for flags that answer with a promise, use
   * {@link ToolRouter.listTools}.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant
   */
  getRegisteredTools(options?: TenantScope): readonly ToolDefinition[] {
    const tenantId = this.#tenantOf(options);
    const tools = this.registry.list(tenantId).map((tool) => tool.definition);
    const gate = this.#gate;
    return gate === undefined ? tools : tools.filter(({ name }) => gate.isSurelyOn({ tenantId, toolName: name }));
  }

  /**
   * The same, also with tools whose flags answer within a second, and with those of sources that are asked now, within the router's
   * `limits.timeoutMs` (300 s by default). A source that fails is left out; {@link ToolRouter.health} lists it.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`, and for a missing or unexpected tenant;
   *   INTERNAL where the host's registry fails
   */
  listTools(options?: TenantScope): Promise<readonly ToolDefinition[]> {
    return deferFailure(async () =>
      (await this.#findTools(this.#tenantOf(options))).map(({ definition }) => definition),
    );
  }

  /**
   * The same with `metadata` of each tool: its digest and content hash, when it was added and updated, what it is granted, its owner and its
   * source, and the limits in effect for the tenant.
   * @throws {ToolError} as {@link listTools}; INTERNAL if the `tenants` option gives no valid policy for the tenant
   */
  describeTools(options?: TenantScope): Promise<readonly ListedTool[]> {
    return deferFailure(async () => {
      const tenantId = this.#tenantOf(options);
      // Once for the whole list: it may be a function of the host's.
      const policy = await this.tenants.whenKnown(tenantId);
      return (await this.#findTools(tenantId)).map((tool) => toListedTool(tool, this.#limitsOf(tool, policy)));
    });
  }

  async #findTools(tenantId: string): Promise<readonly RegisteredTool[]> {
    // A server that is asked now would be started again for a tenant that is being deleted.
    this.admission.checkAdding(tenantId);
    if (this.#discoveries.size > 0 && !this.#clocks.isClosed) {
      const timeoutMs = Math.min(LIMITS.timeoutMs.max, this.#limits.timeoutMs ?? LIMITS.timeoutMs.max);
      using clock = this.#clocks.start({
        ...{ timeoutMs, toolName: "tools", caller: undefined, admittedAt: performance.now() },
      });
      const asked = this.#discoveries.listFor(tenantId);
      await Promise.allSettled(asked.map((source) => this.#discoveries.discover(source, tenantId, clock.signal)));
    }
    const tools = this.registry.list(tenantId);
    const gate = this.#gate;
    if (gate === undefined) return tools;
    const answers = await Promise.all(
      tools.map(({ definition }) => gate.isOn({ tenantId, toolName: definition.name })),
    );
    return tools.filter((_, index) => answers[index] === true);
  }

  /**
   * Returns the digest of a listed tool: SHA-256 in hexadecimal of its definition, its source and, for a sandboxed tool, its code and the
   * capabilities that it is granted. A call with this digest as `context.toolDigest` runs this tool or none. Undefined if the tenant no
   * longer has a tool with this definition.
   * @param definition as `listTools` or `getRegisteredTools` returned it
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
   * Tells whether a tenant has a tool of this name that is known to be on.
   * @throws {ToolError} PARAM_INVALID for a name that is not a string, options other than `{ tenantId }`, and a missing or
   *   unexpected tenant
   */
  hasTool(toolName: string, options?: TenantScope): boolean {
    checkString(toolName, "toolName");
    const tenantId = this.#tenantOf(options);
    if (this.registry.get(toolName, tenantId) === undefined) return false;
    return this.#gate === undefined || this.#gate.isSurelyOn({ tenantId, toolName });
  }

  /**
   * Runs one call; settles within its timeout of admission, queueing included. Never throws, never rejects, whatever it is
   * given: every failure is a ToolResult with a code. A call or context with an unknown key or a wrong value, or that is not a plain
   * object (a promise, an array, a Map), gets PARAM_INVALID; so does a context without `tenantId` if the router has `tenancy: "multi"`, and one
   * with it if not.
   * @param timeoutMs wall time, 1 to 300,000; the lowest of host, tool, context and this wins
   */
  execute(toolCall: ToolCall, context?: ToolContext, timeoutMs?: number): Promise<ToolResult> {
    return this.#track((flight) => this.#run(toolCall, context, timeoutMs, { flight }));
  }

  /**
   * Runs a call that another one makes, as {@link execute} does, for the tenant of that one; also while Glovebox is shutting down, since that
   * one may finish.
   * @internal
   */
  executeNested(toolCall: ToolCall, context: NamedContext, parent: CallChain): Promise<ToolResult> {
    return this.#track((flight) => this.#run(toolCall, context, undefined, { flight, parent }));
  }

  /**
   * Runs a call that was accepted before, and waited for a slot or for its turn; see {@link execute}.
   * @internal
   */
  executeAccepted(
    toolCall: ToolCall,
    context: ToolContext,
    timeoutMs: number | undefined,
    accepted: TrackedCall | undefined,
  ): Promise<ToolResult> {
    return this.#track((flight) => this.#run(toolCall, context, timeoutMs, { flight, accepted }));
  }

  /**
   * Runs one call and gives what the tool yields as it comes, each a `{ type: "chunk", value }`; the last item is the call's ToolResult,
   * with `type: "result"`. The call begins when the first item is asked for, and its time runs from then. Never throws, never rejects.
   *
   * The tool is asked for its next chunk only while those it has yielded are taken. To leave early (`break`) cancels the call, and waits
   * until it has ended. A tool that yields nothing has a stream of its result only.
   */
  stream(toolCall: ToolCall, context?: ToolContext, timeoutMs?: number): ToolStream {
    return createToolStream((chunks, stop) =>
      this.#track((flight) => this.#run(toolCall, context, timeoutMs, { flight, stream: { chunks, stop } })),
    );
  }

  /** Whoever closes the router waits for the call; a call that fails resolves in a later turn of the event loop. */
  async #track(run: (flight: Flight) => Promise<ToolResult>): Promise<ToolResult> {
    const flight: Flight = { running: undefined, tenantId: undefined, quota: undefined };
    this.#inFlight.add(flight);
    try {
      flight.running = deferFailure(() => run(flight), hasFailed);
      const result = await flight.running;
      const { tenantId, quota } = flight;
      if (tenantId !== undefined && quota !== undefined) this.admission.quotas.charge(tenantId, quota, result.usage);
      return result;
    } finally {
      this.#inFlight.delete(flight);
    }
  }

  /** Resolves when no call that fits is in the router. */
  async #settled(fits: (flight: Flight) => boolean): Promise<void> {
    await Promise.allSettled([...this.#inFlight].filter(fits).map(({ running }) => running));
  }

  /**
   * Ends all calls of a tenant, nested ones included, each with its result; also those that begin until it has resolved.
   * @param reason the error of the calls that end
   * @returns how many there were
   * @internal
   */
  async endCalls(tenantId: string, reason: ToolError): Promise<number> {
    const isOf = (flight: Flight): boolean => flight.tenantId === tenantId;
    const count = [...this.#inFlight].filter(isOf).length;
    using _closed = this.#clocks.closeTenant(tenantId, reason);
    await this.#settled(isOf);
    return count;
  }

  async #run(
    toolCall: ToolCall,
    context: ToolContext | undefined,
    timeoutMs: number | undefined,
    { flight, parent, stream, accepted }: RouterRunOptions,
  ): Promise<ToolResult> {
    const started = performance.now();
    let facts: ResultMetadata = { ...readNames(toolCall), started };
    let observer: CallObserver | undefined;
    let tracked = accepted;
    try {
      if (this.#clocks.isClosed) throw unavailable("closed", "Glovebox is closed");
      if (this.#isDraining && parent === undefined) throw unavailable("shutting_down", "Glovebox is shutting down");
      // Of a malformed call the tenant counts all the same.
      const { envelope, problem } = tryEnvelope(toolCall, timeoutMs);
      if (envelope !== undefined) facts = { callId: envelope.callId, toolName: envelope.toolName, started };
      const given = readContextBeside(context, parent === undefined ? this.tenancy : undefined, problem);
      const read = stream === undefined ? given : { ...given, signal: eitherOf(given.signal, stream.stop) };
      flight.tenantId = read.tenantId;
      this.admission.check(read.tenantId, parent !== undefined);
      tracked = this.#accept(accepted, facts, read, parent);
      const waiting = { admittedAt: started, timeoutMs, tracked };
      const found = this.tenants.of(read.tenantId);
      let tenant: TenantPolicy;
      // What is known costs a warm call no `await`.
      if ("wait" in found) {
        tenant = await this.#waitWithin(read, waiting, (signal) => found.wait(signal));
        // The tenant may have been suspended meanwhile.
        this.admission.check(read.tenantId, parent !== undefined);
      } else tenant = found;
      const chunks = stream?.chunks;
      if (this.#watching !== undefined) {
        const begun = { ...facts, context: read, isNested: parent !== undefined };
        observer = new CallObserver(this.#watching, begun);
      }
      if (tenant.quota !== undefined) {
        const counting = this.admission.quotas.admit(read.tenantId, tenant.quota, read.signal);
        if (counting !== undefined) {
          await this.#waitWithin(read, waiting, (signal) => untilAborted(counting, signal));
          this.admission.check(read.tenantId, parent !== undefined);
        }
        flight.quota = tenant.quota;
      }
      if (envelope === undefined) throw problem;
      if (tracked.cancelled !== undefined) throw tracked.cancelled;
      if (this.#gate !== undefined) await this.#pass(this.#gate, tracked, read, timeoutMs);
      const isUnknown = this.#discoveries.size > 0 && this.registry.get(envelope.toolName, read.tenantId) === undefined;
      if (isUnknown) {
        const options = { admittedAt: started, timeoutMs, tracked };
        await this.#find(envelope.toolName, read.tenantId, read, options);
      }
      const prepare = {
        limits: this.#limits,
        tenant,
        clocks: this.#clocks,
        admittedAt: started,
        parent,
        chunks,
        observer,
        tracked,
      };
      const validate: ValidateOptions = {
        bounds: tenant.inputBounds,
        thread: this.#thread,
        isGated: this.#gate !== undefined,
        arguments: this.#arguments,
        isUpdated: this.#isUpdated,
        startClock: (tool) => startCall(tool, read, prepare, timeoutMs).clock,
      };
      const admitted =
        observer === undefined
          ? { envelope }
          : await this.#admit(observer, envelope, read, validate, prepare, timeoutMs);
      const checks = "decided" in admitted ? { ...validate, decided: admitted.decided } : validate;
      const validating = validateCall(admitted.envelope, read, this.registry, checks);
      // Small values are read at once: without an `await` a warm call is some microseconds shorter.
      const validated = validating instanceof Promise ? await validating : validating;
      if (validated.coercions !== undefined) facts = { ...facts, coercions: validated.coercions };
      using preparation = prepareCall(validated, prepare, timeoutMs);
      const { call } = preparation;
      if (observer !== undefined) await observer.prepare(call);
      if (chunks !== undefined) chunks.reading = toReading(call);
      const log = new CallLog(call.limits, call.context.onLog);
      call.chain.log = log;
      const { executor } = validated.tool;
      // Before its source's circuit is asked: what that lets through must be tried.
      if (observer !== undefined) await observer.execute(call);
      const admission = this.#health.admit(executor, call.tenantId);
      tracked.state = "running";
      const executed = withBytes(await executeCall(executor, call, log), call, chunks?.bytes ?? 0);
      tracked.state = "ending";
      // How an old version ends says nothing of the one in its place.
      if (!this.#isUpdated(validated.tool)) this.#health.record(executor, call.tenantId, admission, executed);
      const noted = observer === undefined ? executed : await observer.afterExecute(executed);
      const execution = tracked.cancelled === undefined ? noted : { usage: noted.usage, error: tracked.cancelled };
      const usage = { ...execution.usage, logsDropped: execution.usage.logsDropped + log.dropped };
      const ended = { ...facts, usage, logs: log.entries, calls: call.chain.calls };
      const options = {
        ...{ tool: validated.tool, limits: call.limits, thread: this.#thread, signal: call.signal },
        streamedBytes: chunks?.bytes ?? 0,
      };
      const normalizing = normalize(ended, execution, options);
      const normalized = normalizing instanceof Promise ? await normalizing : normalizing;
      const made = tracked.cancelled === undefined ? normalized : toFailure(ended, tracked.cancelled);
      const error = "error" in execution ? execution.error : undefined;
      if (observer === undefined) return this.#report(made, error);
      const before = tracked.cancelled;
      const shown = await observer.result(
        made,
        async (given) => await normalize(ended, toExecution(given, usage, call.limits), options),
        tracked,
      );
      const late = tracked.cancelled === before ? undefined : tracked.cancelled;
      return this.#end(observer, late === undefined ? shown : toFailure(ended, late), late ?? error);
    } catch (thrown) {
      const error = tracked?.cancelled ?? toToolError(thrown);
      const failed = toFailure(facts, error);
      if (this.#watching === undefined) return this.#report(failed, error);
      observer ??= new CallObserver(this.#watching, facts);
      const result = await observer.result(failed, async (given) => toFailure(facts, asError(given)), tracked);
      return this.#end(observer, result, error);
    } finally {
      if (tracked !== undefined) this.calls.end(tracked);
    }
  }

  /** From here on the call is in {@link listCalls}. */
  #accept(
    accepted: TrackedCall | undefined,
    { callId, toolName, started }: ResultMetadata,
    { tenantId, sessionId }: ToolContext & { readonly tenantId: string },
    parent: CallChain | undefined,
  ): TrackedCall {
    if (accepted === undefined) {
      return this.calls.begin({
        callId,
        toolName,
        tenantId,
        started,
        state: "starting",
        sessionId,
        parent: parent?.tracked,
      });
    }
    accepted.toolName = toolName;
    accepted.state = "starting";
    return accepted;
  }

  /** Returns the call as hooks admitted it, and the tool that they decided about. @throws {ToolError} as a rejection */
  async #admit(
    observer: CallObserver,
    envelope: CallEnvelope,
    context: NamedContext,
    validate: ValidateOptions,
    prepare: PrepareOptions,
    timeoutMs: number | undefined,
  ): Promise<{ readonly envelope: CallEnvelope; readonly decided: { readonly tool: RegisteredTool | undefined } }> {
    const tool = this.registry.get(envelope.toolName, context.tenantId);
    observer.beginValidate();
    const decided = { tool };
    if (tool === undefined) return { envelope, decided };
    const { clock, deadlineAt } = startCall(tool, context, prepare, timeoutMs);
    using own = clock;
    observer.found(tool.definition, tool.executor.source, prepare.tenant, { until: deadlineAt, signal: own.signal });
    if (!observer.hasHook("validate")) return { envelope, decided };
    const { callId, toolName } = envelope;
    const copy = (args: unknown): Promise<ToolValue> => copyArguments({ toolName, arguments: args }, tool, validate);
    const coerced = await coerceCall(envelope, tool, context, validate);
    const args = await observer.validate(await copyArguments(coerced, tool, validate), copy);
    return { envelope: { callId, toolName, arguments: args, coercions: coerced.coercions }, decided };
  }

  #end(observer: CallObserver, result: ToolResult, error: ToolError | undefined): ToolResult {
    observer.ended(result, error);
    return this.#report(result, error);
  }

  /** Asked before anything tells whether there is such a tool: one that is off looks as one that there is not, and takes as long. */
  async #pass(
    gate: ToolGate,
    tracked: TrackedCall,
    { tenantId, timeoutMs: contextMs, signal }: NamedContext,
    ownMs: number | undefined,
  ): Promise<void> {
    const stated = [ownMs, contextMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const { toolName } = tracked;
    const isOn = await gate.isOn(
      { tenantId, toolName },
      {
        timeoutMs: Math.min(...stated),
        // Read only where flags take their time.
        get signal() {
          return tracked.signalWith(signal);
        },
      },
    );
    if (!isOn) throw noSuchTool(toolName);
  }

  /**
   * Takes no more calls (they get TOOL_UNAVAILABLE); resolves when those in it are over, or after `withinMs`.
   * @param withinMs in whole ms, 0 to 300,000
   * @throws {ToolError} PARAM_INVALID, as a rejection, for any other value
   */
  drain(withinMs: number): Promise<void> {
    return deferFailure(() => this.#drain(withinMs));
  }

  async #drain(withinMs: number): Promise<void> {
    parseOptions(DrainSchema, withinMs, "withinMs");
    this.#isDraining = true;
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
   * After a disposal that has taken too long: waits for no hook any more.
   * @internal
   */
  forceClose(): void {
    this.#hooks?.stopWaiting();
  }

  /** A failure of ours is not swallowed: the operator hears its cause. */
  #report(result: ToolResult, error: ToolError | undefined): ToolResult {
    if (result.success) return result;
    const { code, message } = result.error;
    // Of a host function's failure the caller learns only that it happened: its cause is for the operator too.
    const isOurs = code === "INTERNAL" || (HIDES_CAUSE.has(code) && error?.cause !== undefined);
    if (isOurs) notifySafely(this.#onInternalError, error ?? new ToolError("INTERNAL", message));
    return result;
  }
}

const hasFailed = ({ success }: ToolResult): boolean => !success;

const DrainSchema = z.int().min(0).max(LIMITS.timeoutMs.max);

interface FindOptions {
  readonly admittedAt: number;
  readonly timeoutMs: number | undefined;
  readonly tracked: TrackedCall;
}

/** A caller learns that it happened; why is for the operator. */
const HIDES_CAUSE: ReadonlySet<ErrorCode> = new Set(["TOOL_FAILED", "TOOL_UNAVAILABLE"]);

/** What a hook has put in the place of what its tool said: read as that is. */
function toExecution(
  given: { readonly output: unknown } | { readonly error: ToolError },
  usage: ToolUsage,
  { outputBytes, jsonValues }: Limits,
): Execution {
  if ("error" in given) return { usage, error: given.error };
  try {
    const { text, bytes } = toTextWithBytes(given.output, { bytes: outputBytes, values: jsonValues });
    if (text !== undefined)
      return { usage, outputText: text, ...(bytes === undefined ? {} : { outputBytes: () => bytes }) };
  } catch (thrown) {
    if (isValueTooLarge(thrown) && !thrown.isDeep) {
      const message = `A hook has put in an output that passes the limit ${thrown.limit === "bytes" ? "outputBytes" : "jsonValues"}`;
      return { usage, error: new ToolError("OUTPUT_TOO_LARGE", message) };
    }
    // What has no JSON is no output.
  }
  return { usage, error: new ToolError("OUTPUT_INVALID", "A hook has put in an output that has no JSON") };
}

/** A call that its tool has never had has no output. */
const asError = (given: { readonly output: unknown } | { readonly error: ToolError }): ToolError =>
  "error" in given ? given.error : new ToolError("OUTPUT_INVALID", "A hook has put in an output where no tool has run");

/** How a call came to the router. */
interface RouterRunOptions {
  readonly flight: Flight;
  /** The call that it is nested in. */
  readonly parent?: CallChain;
  readonly stream?: Streamed;
  /** It was accepted before, and has waited. */
  readonly accepted?: TrackedCall | undefined;
}

/** A call in the router. */
interface Flight {
  running: Promise<ToolResult> | undefined;
  /** Once it is known. */
  tenantId: string | undefined;
  /** What the call is charged to when it ends; undefined for one that was not admitted. */
  quota: QuotaPlan | undefined;
}

/** The envelope of a call, or what is wrong with it. */
function tryEnvelope(
  toolCall: unknown,
  timeoutMs: unknown,
): { readonly envelope?: CallEnvelope; readonly problem?: unknown } {
  try {
    const envelope = readEnvelope(toolCall);
    checkTimeout(timeoutMs, "timeoutMs");
    return { envelope };
  } catch (problem) {
    return { problem };
  }
}

/** Throws what is wrong with the call before what is wrong with its context. */
function readContextBeside(context: unknown, tenancy: Tenancy | undefined, problem: unknown): NamedContext {
  try {
    return readContext(context, tenancy);
  } catch (thrown) {
    throw problem ?? thrown;
  }
}

/** Who reads a call's chunks, and how they end it. */
interface Streamed {
  readonly chunks: ChunkQueue;
  readonly stop: AbortSignal;
}

const eitherOf = (caller: AbortSignal | undefined, stop: AbortSignal): AbortSignal =>
  caller === undefined ? stop : AbortSignal.any([caller, stop]);

function toReading({ limits, definition, signal }: PreparedCall): ChunkReading {
  const bounds = { bytes: limits.outputBytes, depth: limits.jsonDepth, values: limits.jsonValues };
  return { bounds, what: `A chunk of the output of ${definition.name}`, signal };
}

/** What a result can name when the call itself cannot be read. */
export function readNames(toolCall: unknown): { readonly callId: string; readonly toolName: string } {
  try {
    const { id, toolName } = toolCall as { readonly id?: unknown; readonly toolName?: unknown };
    return {
      callId: typeof id === "string" ? id.slice(0, 1_024) : "",
      toolName: typeof toolName === "string" ? toolName.slice(0, 128) : "",
    };
  } catch {
    return { callId: "", toolName: "" };
  }
}
