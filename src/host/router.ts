// ToolRouter: the one way to a tool. validate → prepare → execute → normalize; always one ToolResult, never a throw.
import * as z from "zod";
import { isPlainObject } from "../sandbox/contract/plain-object.ts";
import type { JsonSchema, ToolDefinition } from "../sandbox/definition.ts";
import { type ErrorCode, ToolError, toToolError } from "../sandbox/errors.ts";
import { LIMITS, type Limits, type PartialLimits } from "../sandbox/limits.ts";
import type { CallChain } from "./call-chain.ts";
import type { Execution, Executor } from "./executors/executor.ts";
import { createHostFunctionExecutor, type HostFunction } from "./executors/host-function.ts";
import { ToolGate } from "./flags.ts";
import { type SourceHealth, SourceHealthRegistry } from "./health/source-health.ts";
import { type HookFailure, Hooks } from "./hooks.ts";
import type { HostLog } from "./host-log.ts";
import { compileSchema } from "./json-schema/compile-schema.ts";
import { CallLog } from "./logs.ts";
import { parseOptions } from "./option-problems.ts";
import { type ArgumentOptions, parseArgumentOptions } from "./pipeline/amend.ts";
import { Clocks } from "./pipeline/clock.ts";
import { executeCall } from "./pipeline/execute.ts";
import { normalize, type ResultFacts, toFailure } from "./pipeline/normalize.ts";
import { type PrepareOptions, prepareCall, startCall } from "./pipeline/prepare.ts";
import { checkTimeout, readContext } from "./pipeline/read-context.ts";
import { digestOfTool, isSameDefinition } from "./pipeline/tool-digest.ts";
import {
  amendCall,
  type CallEnvelope,
  copyArguments,
  DEFAULT_TENANT,
  noSuchTool,
  readEnvelope,
  type ValidateOptions,
  validateCall,
} from "./pipeline/validate.ts";
import type { RegisteredTool, ToolRegistry } from "./registry.ts";
import { toCheckedRegistry } from "./routing/checked-registry.ts";
import { Discoveries } from "./routing/discovery.ts";
import {
  checkHandler,
  type HostInput,
  type HostSchema,
  type HostToolDefinition,
  parseHostDefinition,
  parseRegisterOptions,
  type RegisterOptions,
} from "./routing/registration.ts";
import { checkSource, parseRouterOptions, type ToolRouterOptions } from "./routing/router-options.ts";
import { checkString, parseTenantScope, type TenantScope } from "./routing/tenant-scope.ts";
import { SchemaThread } from "./schema-thread.ts";
import { AddedSource, type SourceTransport } from "./source.ts";
import { Tenancy } from "./tenants/tenancy.ts";
import { TenantPolicies } from "./tenants.ts";
import type { PreparedCall, ToolCall, ToolContext, ToolResult, ToolUsage } from "./tool-call.ts";
import { type ChunkQueue, type ChunkReading, createToolStream, type ToolStream } from "./tool-stream.ts";
import { type ToolValue, toTextWithBytes } from "./tool-value.ts";
import { notifySafely } from "./util/host-callback.ts";
import { isValueTooLarge } from "./value-size.ts";
import { CallWatch, type WatchParts } from "./watch.ts";

export type { HostToolDefinition, RegisterOptions } from "./routing/registration.ts";
export type { ToolRouterOptions } from "./routing/router-options.ts";

interface RegistryEntry extends RegisterOptions {
  readonly defaultLimits?: PartialLimits | undefined;
  readonly hostLimits?: PartialLimits | undefined;
  readonly authorLimits?: PartialLimits | undefined;
  readonly contentDigest?: string | undefined;
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
  };
}

/** Dispose it to end its calls: those in it resolve with CANCELLED, later ones with TOOL_UNAVAILABLE. */
export class ToolRouter implements AsyncDisposable {
  readonly registry: ToolRegistry;
  readonly #clocks = new Clocks();
  readonly #inFlight = new Set<Promise<ToolResult>>();
  #isDraining = false;
  readonly #thread = new SchemaThread();
  readonly #limits: PartialLimits;
  readonly #gate: ToolGate | undefined;
  readonly #health: SourceHealthRegistry;
  readonly #sources = new Set<string>();
  readonly #discoveries: Discoveries;
  /** Which tenant a method is about, by the `tenancy` option. */
  readonly tenancy: Tenancy;
  /** Policies of single tenants. */
  readonly tenants: TenantPolicies;
  readonly #onInternalError: ((error: ToolError) => unknown) | undefined;
  /** Undefined where nothing observes calls, which are faster then. */
  readonly #watching: WatchParts | undefined;
  readonly #arguments: ArgumentOptions | undefined;

  /** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
  constructor(options: ToolRouterOptions = {}) {
    const { registry, limits, tenancy, tenants, coarseTime, egress, secrets, ...given } = parseRouterOptions(options);
    const { enabled, flags, health, onInternalError, hooks, telemetry, log } = given;
    this.registry = toCheckedRegistry(registry);
    this.#limits = limits;
    this.tenancy = new Tenancy(tenancy);
    this.tenants = new TenantPolicies(tenants, limits, { coarseTime, egress, secrets });
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
   * @throws {ToolError} PARAM_INVALID for a malformed or taken name, a handler that is not a function, or a field or option that is
   *   unknown or of the wrong type; BUNDLE_FAILED for a JSON Schema that cannot be used
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
    this.#register(toolName, parsed.definition, executor, parseRegisterOptions(options));
  }

  /**
   * Adds a source of tools with a transport of its own, such as an upstream server. Its tools are registered on the returned object. While
   * a source keeps failing, calls of its tools are answered without asking it: {@link ToolRouter.health}.
   * @throws {ToolError} PARAM_INVALID for a malformed or taken id, or a transport that is wrong
   */
  addSource(id: string, transport: SourceTransport): AddedSource {
    checkSource(id, transport);
    if (this.#sources.has(id)) throw new ToolError("PARAM_INVALID", `There is a source with the id "${id}" already`);
    this.#sources.add(id);
    const { kind = "host", discovery } = transport;
    if (discovery !== undefined) this.#discoveries.add({ source: kind, sourceId: id, discovery });
    return new AddedSource(id, transport, {
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
    options: RegisterOptions,
  ): void {
    const whole: ToolDefinition = { ...definition, name: toolName };
    this.add(toRegisteredTool(whole, executor, { ...options, hostLimits: definition.limits }));
  }

  /** Puts a tool into the registry; what was known of the health of another one by its name is forgotten. Throws as the registry does. */
  add(tool: RegisteredTool): void {
    this.registry.add(tool);
    const { source, sourceId } = tool.executor;
    if (sourceId === `${source}:${tool.definition.name}`) this.#health.forget(sourceId);
  }

  /**
   * Sources of tools and whether they can be asked, by id: those of the tenant's and the global tools. Without a tenant: those of the global
   * tools, those that were added, and all that fail for any tenant.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }`
   */
  health(options?: TenantScope): readonly SourceHealth[] {
    const { tenantId } = parseTenantScope(options);
    const executors = this.registry.list(tenantId).map(({ executor }) => executor);
    return this.#health.list([...executors, ...this.#discoveries.listFor(tenantId)], tenantId);
  }

  /** Before a call of an unknown name: asks the sources that the tool may come from, within the time of the call. */
  async #find(toolName: string, tenantId: string, context: ToolContext, options: FindOptions): Promise<void> {
    const asked = this.#discoveries.listWith(toolName, tenantId);
    if (asked.length === 0) return;
    const { admittedAt, timeoutMs } = options;
    const stated = [timeoutMs, context.timeoutMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const withinMs = Math.min(LIMITS.timeoutMs.max, ...stated);
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller: context.signal, admittedAt });
    const outcomes = await Promise.allSettled(
      asked.map((source) => this.#discoveries.discover(source, tenantId, clock.signal)),
    );
    if (this.registry.get(toolName, tenantId) !== undefined) return;
    clock.signal.throwIfAborted();
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }

  /**
   * Definitions of a tenant's and the global tools, by name; without a tenant, those that a call of the tenant `default` finds. Only tools
   * that are known to be on: for flags that answer with a promise, use {@link ToolRouter.listTools}.
   * @throws {ToolError} PARAM_INVALID for options other than `{ tenantId }`
   */
  getRegisteredTools(options?: TenantScope): readonly ToolDefinition[] {
    const { tenantId = DEFAULT_TENANT } = parseTenantScope(options);
    const tools = this.registry.list(tenantId).map((tool) => tool.definition);
    const gate = this.#gate;
    return gate === undefined ? tools : tools.filter(({ name }) => gate.isSurelyOn({ tenantId, toolName: name }));
  }

  /**
   * The same, also with tools whose flags answer within a second, and with those of sources that are asked now, within the router's
   * `limits.timeoutMs` (300 s by default). A source that fails is left out; {@link ToolRouter.health} lists it.
   * @throws {ToolError} as a rejection: PARAM_INVALID for options other than `{ tenantId }`; INTERNAL where the host's registry fails
   */
  async listTools(options?: TenantScope): Promise<readonly ToolDefinition[]> {
    const { tenantId = DEFAULT_TENANT } = parseTenantScope(options);
    if (this.#discoveries.size > 0 && !this.#clocks.isClosed) {
      const timeoutMs = Math.min(LIMITS.timeoutMs.max, this.#limits.timeoutMs ?? LIMITS.timeoutMs.max);
      using clock = this.#clocks.start({
        ...{ timeoutMs, toolName: "tools", caller: undefined, admittedAt: performance.now() },
      });
      const asked = this.#discoveries.listFor(tenantId);
      await Promise.allSettled(asked.map((source) => this.#discoveries.discover(source, tenantId, clock.signal)));
    }
    const tools = this.registry.list(tenantId).map((tool) => tool.definition);
    const gate = this.#gate;
    if (gate === undefined) return tools;
    const answers = await Promise.all(tools.map(({ name }) => gate.isOn({ tenantId, toolName: name })));
    return tools.filter((_, index) => answers[index] === true);
  }

  /**
   * Returns the digest of a listed tool: SHA-256 in hexadecimal of its definition, its source and, for a sandboxed tool, its code and the
   * capabilities that it is granted. A call with this digest as `context.toolDigest` runs this tool or none. Undefined if the tenant no
   * longer has a tool with this definition.
   * @param definition as `listTools` or `getRegisteredTools` returned it
   * @throws {ToolError} PARAM_INVALID for a value that is not a definition, or options other than `{ tenantId }`
   */
  digestOf(definition: ToolDefinition, options?: TenantScope): string | undefined {
    const toolName = checkString(isPlainObject(definition) ? definition.name : undefined, "definition.name");
    const { tenantId = DEFAULT_TENANT } = parseTenantScope(options);
    const tool = this.registry.get(toolName, tenantId);
    if (tool === undefined || !isSameDefinition(tool.definition, definition)) return undefined;
    return digestOfTool(tool);
  }

  /**
   * Tells whether a tenant has a tool of this name that is known to be on.
   * @throws {ToolError} PARAM_INVALID for a name that is not a string, or options other than `{ tenantId }`
   */
  hasTool(toolName: string, options?: TenantScope): boolean {
    checkString(toolName, "toolName");
    const { tenantId = DEFAULT_TENANT } = parseTenantScope(options);
    if (this.registry.get(toolName, tenantId) === undefined) return false;
    return this.#gate === undefined || this.#gate.isSurelyOn({ tenantId, toolName });
  }

  /**
   * Runs one call; settles within its timeout of admission, queueing included. Never throws, never rejects, whatever it is
   * given: every failure is a ToolResult with a code. A call or context with an unknown key or a wrong value, or that is not a plain
   * object (a promise, an array, a Map), gets PARAM_INVALID.
   * @param timeoutMs wall time, 1 to 300,000; the lowest of host, tool, context and this wins
   */
  async execute(toolCall: ToolCall, context?: ToolContext, timeoutMs?: number): Promise<ToolResult> {
    return await this.#track(this.#run(toolCall, context, timeoutMs));
  }

  /**
   * Runs a call that another one makes, as {@link execute} does; also while Glovebox is shutting down, since that one may finish.
   * @internal
   */
  async executeNested(toolCall: ToolCall, context: ToolContext, parent: CallChain): Promise<ToolResult> {
    return await this.#track(this.#run(toolCall, context, undefined, { parent }));
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
      this.#track(this.#run(toolCall, context, timeoutMs, { stream: { chunks, stop } })),
    );
  }

  async #track(running: Promise<ToolResult>): Promise<ToolResult> {
    this.#inFlight.add(running);
    try {
      return await running;
    } finally {
      this.#inFlight.delete(running);
    }
  }

  async #run(
    toolCall: ToolCall,
    context: ToolContext | undefined,
    timeoutMs: number | undefined,
    { parent, stream }: { readonly parent?: CallChain; readonly stream?: Streamed } = {},
  ): Promise<ToolResult> {
    const started = performance.now();
    let facts: ResultFacts = { ...readNames(toolCall), started };
    let watch: CallWatch | undefined;
    try {
      if (this.#clocks.isClosed) throw new ToolError("TOOL_UNAVAILABLE", "Glovebox is closed");
      if (this.#isDraining && parent === undefined)
        throw new ToolError("TOOL_UNAVAILABLE", "Glovebox is shutting down");
      const envelope = readEnvelope(toolCall);
      facts = { callId: envelope.callId, toolName: envelope.toolName, started };
      checkTimeout(timeoutMs, "timeoutMs");
      const given = readContext(context);
      const read = stream === undefined ? given : { ...given, signal: eitherOf(given.signal, stream.stop) };
      const tenant = this.tenants.of(read.tenantId);
      const chunks = stream?.chunks;
      if (this.#watching !== undefined) {
        const begun = { ...facts, context: read, isNested: parent !== undefined };
        watch = new CallWatch(this.#watching, begun);
      }
      if (this.#gate !== undefined) await this.#pass(this.#gate, envelope.toolName, read, timeoutMs);
      const isUnknown = this.#discoveries.size > 0 && this.registry.get(envelope.toolName, read.tenantId) === undefined;
      if (isUnknown) await this.#find(envelope.toolName, read.tenantId, read, { admittedAt: started, timeoutMs });
      const prepare = {
        limits: this.#limits,
        tenant,
        clocks: this.#clocks,
        admittedAt: started,
        parent,
        chunks,
        watch,
      };
      const validate: ValidateOptions = {
        bounds: tenant.inputBounds,
        thread: this.#thread,
        isGated: this.#gate !== undefined,
        arguments: this.#arguments,
        startClock: (tool) => startCall(tool, read, prepare, timeoutMs).clock,
      };
      const admitted =
        watch === undefined ? { envelope } : await this.#admit(watch, envelope, read, validate, prepare, timeoutMs);
      const checks = "decided" in admitted ? { ...validate, decided: admitted.decided } : validate;
      const validating = validateCall(admitted.envelope, read, this.registry, checks);
      // Small values are read at once: without an `await` a warm call is some microseconds shorter.
      const validated = validating instanceof Promise ? await validating : validating;
      if (validated.amendments !== undefined) facts = { ...facts, amendments: validated.amendments };
      using preparation = prepareCall(validated, prepare, timeoutMs);
      const { call } = preparation;
      if (watch !== undefined) await watch.prepare(call);
      if (chunks !== undefined) chunks.reading = toReading(call);
      const log = new CallLog(call.limits, call.context.onLog);
      call.chain.log = log;
      const { executor } = validated.tool;
      // Before its source's circuit is asked: what that lets through must be tried.
      if (watch !== undefined) await watch.execute(call);
      const admission = this.#health.admit(executor, call.tenantId);
      const executed = await executeCall(executor, call, log);
      this.#health.record(executor, call.tenantId, admission, executed);
      const execution = watch === undefined ? executed : await watch.normalize(executed);
      const usage = { ...execution.usage, logsDropped: execution.usage.logsDropped + log.dropped };
      const ended = { ...facts, usage, logs: log.entries, calls: call.chain.calls };
      const options = {
        ...{ tool: validated.tool, limits: call.limits, thread: this.#thread, signal: call.signal },
        streamedBytes: chunks?.bytes ?? 0,
      };
      const normalizing = normalize(ended, execution, options);
      const made = normalizing instanceof Promise ? await normalizing : normalizing;
      const error = "error" in execution ? execution.error : undefined;
      if (watch === undefined) return this.#report(made, error);
      const result = await watch.result(
        made,
        async (given) => await normalize(ended, toExecution(given, usage, call.limits), options),
      );
      return this.#end(watch, result, error);
    } catch (thrown) {
      const error = toToolError(thrown);
      const failed = toFailure(facts, error);
      if (this.#watching === undefined) return this.#report(failed, error);
      watch ??= new CallWatch(this.#watching, facts);
      const result = await watch.result(failed, async (given) => toFailure(facts, asError(given)));
      return this.#end(watch, result, error);
    }
  }

  /** Returns the call as hooks admitted it, and the tool that they decided about. @throws {ToolError} as a rejection */
  async #admit(
    watch: CallWatch,
    envelope: CallEnvelope,
    context: ToolContext & { readonly tenantId: string },
    validate: ValidateOptions,
    prepare: PrepareOptions,
    timeoutMs: number | undefined,
  ): Promise<{ readonly envelope: CallEnvelope; readonly decided: { readonly tool: RegisteredTool | undefined } }> {
    const tool = this.registry.get(envelope.toolName, context.tenantId);
    watch.beginValidate();
    const decided = { tool };
    if (tool === undefined) return { envelope, decided };
    const { clock, deadlineAt } = startCall(tool, context, prepare, timeoutMs);
    using own = clock;
    watch.found(tool.definition, tool.executor.source, prepare.tenant, { until: deadlineAt, signal: own.signal });
    if (!watch.asks("validate")) return { envelope, decided };
    const { callId, toolName } = envelope;
    const copy = (args: unknown): Promise<ToolValue> => copyArguments({ toolName, arguments: args }, tool, validate);
    const amended = await amendCall(envelope, tool, context, validate);
    const args = await watch.validate(await copyArguments(amended, tool, validate), copy);
    return { envelope: { callId, toolName, arguments: args, amendments: amended.amendments }, decided };
  }

  #end(watch: CallWatch, result: ToolResult, error: ToolError | undefined): ToolResult {
    watch.ended(result, error);
    return this.#report(result, error);
  }

  /** Asked before anything tells whether there is such a tool: one that is off looks as one that there is not, and takes as long. */
  async #pass(
    gate: ToolGate,
    toolName: string,
    { tenantId = DEFAULT_TENANT, timeoutMs: contextMs, signal }: ToolContext,
    ownMs: number | undefined,
  ): Promise<void> {
    const stated = [ownMs, contextMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const isOn = await gate.isOn({ tenantId, toolName }, { timeoutMs: Math.min(...stated), signal });
    if (!isOn) throw noSuchTool(toolName);
  }

  /**
   * Takes no more calls (they get TOOL_UNAVAILABLE); resolves when those in it are over, or after `withinMs`.
   * @param withinMs in whole ms, 0 to 300,000
   * @throws {ToolError} PARAM_INVALID, as a rejection, for any other value
   */
  async drain(withinMs: number): Promise<void> {
    parseOptions(DrainSchema, withinMs, "withinMs");
    this.#isDraining = true;
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, withinMs);
    await Promise.race([Promise.allSettled([...this.#inFlight]), late]);
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#clocks.close();
    await Promise.allSettled([...this.#inFlight]);
    await this.#thread[Symbol.asyncDispose]();
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

const DrainSchema = z.int().min(0).max(LIMITS.timeoutMs.max);

interface FindOptions {
  readonly admittedAt: number;
  readonly timeoutMs: number | undefined;
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
