// Runs one call: admission, validate → prepare → execute → normalize, and its hooks. Always returns a ToolResult, and never throws.
import { type ErrorCode, ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import type { CallContext, ToolCall, ToolResult } from "../contract/tool-call.ts";
import type { ChunkQueue, ChunkReading } from "../contract/tool-stream.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import { CallLog } from "../observability/call-log.ts";
import { CallObserver, type ObserverSources } from "../observability/call-observer.ts";
import type { Clocks } from "../pipeline/clock.ts";
import type { ArgumentOptions } from "../pipeline/coercion.ts";
import { executeCall } from "../pipeline/execute.ts";
import { normalize, type ResultMetadata, toFailure } from "../pipeline/normalize.ts";
import { type PrepareOptions, prepareCall, startCall } from "../pipeline/prepare.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { NamedContext } from "../pipeline/read-context.ts";
import {
  type CallEnvelope,
  coerceCall,
  copyArguments,
  type ValidatedCall,
  type ValidateOptions,
  validateCall,
} from "../pipeline/validate.ts";
import { withBytes } from "../tenants/call-meter.ts";
import type { QuotaAccount } from "../tenants/quotas/tenant-quotas.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import type { TenantStates } from "../tenants/tenant-states.ts";
import { notifySafely } from "../util/host-callback.ts";
import { CallAdmission, type CallAdmissionDependencies } from "./call-admission.ts";
import type { CallChain } from "./call-chain.ts";
import type { CheckedToolRegistry } from "./checked-registry.ts";
import type { SourceHealthRegistry } from "./health/source-health.ts";
import { toExecution, toHookError } from "./hook-output.ts";
import type { OpenCalls, TrackedCall } from "./open-calls.ts";
import { readContextAfter, readNames, tryReadEnvelope } from "./read-call.ts";
import type { RegisteredTool } from "./registry.ts";
import { versionOf, withVersion } from "./tool-release.ts";

/** Parts of the router that a call uses. */
export interface CallRunnerDependencies extends CallAdmissionDependencies {
  readonly calls: OpenCalls;
  readonly thread: SchemaThread;
  readonly tenancy: Tenancy;
  readonly arguments: ArgumentOptions | undefined;
  readonly health: SourceHealthRegistry;
  /** Undefined if nothing observes calls, which makes them faster. */
  readonly observerSources: ObserverSources | undefined;
  readonly onInternalError: ((error: ToolError) => unknown) | undefined;
  /** Returns whether a later version replaced this one. */
  readonly isUpdated: (tool: RegisteredTool) => boolean;
  /** Returns whether a later version replaced this one, or the tool was removed. */
  readonly hasEnded: (tool: RegisteredTool) => boolean;
}

/** How a call came to the router. */
export interface CallOptions {
  readonly flight: Flight;
  /** The call that made this one. */
  readonly parent?: CallChain;
  readonly stream?: Streamed;
  /** The record of a call that was accepted earlier and has waited. */
  readonly accepted?: TrackedCall | undefined;
  /** Error of a call whose caller has found it malformed. */
  readonly issue?: ToolError | undefined;
}

/** A call in the router. */
export interface Flight {
  running: Promise<ToolResult> | undefined;
  /** Undefined until the context is read. */
  tenantId: string | undefined;
  /** Quotas that the call is charged to when it ends. Undefined if the call was not admitted. */
  quotas: readonly QuotaAccount[] | undefined;
}

/** The queue that a stream's reader takes chunks from, and the signal that the reader cancels with. */
interface Streamed {
  readonly chunks: ChunkQueue;
  readonly stop: AbortSignal;
}

/** A call that runs. The steps set what they establish, so that a failure is reported with it. */
interface CallRun {
  /** By performance.now(). */
  readonly started: number;
  readonly timeoutMs: number | undefined;
  readonly flight: Flight;
  readonly parent: CallChain | undefined;
  readonly chunks: ChunkQueue | undefined;
  facts: ResultMetadata;
  observer: CallObserver | undefined;
  tracked: TrackedCall | undefined;
}

export class CallRunner {
  readonly #registry: CheckedToolRegistry;
  readonly #calls: OpenCalls;
  readonly #clocks: Clocks;
  readonly #thread: SchemaThread;
  readonly #tenancy: Tenancy;
  readonly #tenantStates: TenantStates;
  readonly #limits: PartialLimits;
  readonly #arguments: ArgumentOptions | undefined;
  readonly #health: SourceHealthRegistry;
  readonly #isGated: boolean;
  readonly #admission: CallAdmission;
  readonly #observerSources: ObserverSources | undefined;
  readonly #onInternalError: ((error: ToolError) => unknown) | undefined;
  readonly #isUpdated: (tool: RegisteredTool) => boolean;
  readonly #hasEnded: (tool: RegisteredTool) => boolean;
  /** Whether new calls, other than nested ones, are rejected because the router shuts down. */
  isDraining = false;

  constructor(dependencies: CallRunnerDependencies) {
    this.#registry = dependencies.registry;
    this.#calls = dependencies.calls;
    this.#clocks = dependencies.clocks;
    this.#thread = dependencies.thread;
    this.#tenancy = dependencies.tenancy;
    this.#tenantStates = dependencies.tenantStates;
    this.#limits = dependencies.limits;
    this.#arguments = dependencies.arguments;
    this.#isGated = dependencies.gate !== undefined;
    this.#health = dependencies.health;
    this.#admission = new CallAdmission(dependencies);
    this.#observerSources = dependencies.observerSources;
    this.#onInternalError = dependencies.onInternalError;
    this.#isUpdated = dependencies.isUpdated;
    this.#hasEnded = dependencies.hasEnded;
  }

  /** Runs one call. Never throws and never rejects: every failure is a ToolResult. */
  async run(
    toolCall: ToolCall,
    context: CallContext | undefined,
    timeoutMs: number | undefined,
    { flight, parent, stream, accepted, issue: known }: CallOptions,
  ): Promise<ToolResult> {
    const started = performance.now();
    const facts = { ...readNames(toolCall), started };
    const run: CallRun = {
      started,
      timeoutMs,
      flight,
      parent,
      chunks: stream?.chunks,
      facts,
      observer: undefined,
      tracked: accepted,
    };
    try {
      if (this.#clocks.isClosed) throw unavailable("closed", "Glovebox is closed");
      if (this.isDraining && parent === undefined) throw unavailable("shutting_down", "Glovebox is shutting down");
      // A malformed call counts against its tenant too.
      const { envelope, issue } =
        known === undefined ? tryReadEnvelope(toolCall, timeoutMs) : { envelope: undefined, issue: known };
      if (envelope !== undefined) run.facts = { callId: envelope.callId, toolName: envelope.toolName, started };
      const given = readContextAfter(context, parent === undefined ? this.#tenancy : undefined, issue);
      const read = stream === undefined ? given : { ...given, signal: eitherOf(given.signal, stream.stop) };
      flight.tenantId = read.tenantId;
      this.#tenantStates.check(read.tenantId, parent !== undefined);
      const tracked = this.#accept(accepted, run.facts, read, parent);
      run.tracked = tracked;
      // Known policies and quotas, and small values, cost a warm call no `await`, which takes a few microseconds.
      const admitting = { context: read, tracked, started, timeoutMs, isNested: parent !== undefined };
      const found = this.#admission.policyOf(admitting);
      const tenant = found instanceof Promise ? await found : found;
      this.#observe(run, read, tracked);
      const counted = this.#admission.countOn(admitting, tenant);
      flight.quotas = counted instanceof Promise ? await counted : counted;
      if (envelope === undefined) throw issue;
      if (tracked.cancelled !== undefined) throw tracked.cancelled;
      const finding = this.#admission.findTool(admitting, envelope.toolName);
      if (finding !== undefined) await finding;
      const versioned = withVersion(read, envelope.toolName, this.#registry.get(envelope.toolName, read.tenantId));
      if (versioned.toolVersion !== undefined) run.facts = { ...run.facts, toolVersion: versioned.toolVersion };
      const prepare = this.#toPrepareOptions(run, tracked, tenant);
      const validating = this.#validate(run.observer, envelope, versioned, prepare, timeoutMs);
      const validated = validating instanceof Promise ? await validating : validating;
      if (validated.coercions !== undefined) run.facts = { ...run.facts, coercions: validated.coercions };
      using preparation = prepareCall(validated, prepare, timeoutMs);
      return await this.#execute(run, validated.tool, preparation.call, tracked);
    } catch (thrown) {
      return await this.#fail(run, thrown);
    } finally {
      if (run.tracked !== undefined) this.#calls.end(run.tracked);
    }
  }

  /** Gives the call an observer, if the host observes calls or the caller wants a timeline. */
  #observe(run: CallRun, context: NamedContext, tracked: TrackedCall): void {
    if (this.#observerSources === undefined && context.timeline !== true) return;
    const begun = { ...run.facts, context, isNested: run.parent !== undefined };
    run.observer = new CallObserver(this.#observerSources ?? {}, begun);
    tracked.progress = run.observer;
  }

  #toPrepareOptions({ started, parent, chunks, observer }: CallRun, tracked: TrackedCall, tenant: TenantPolicy) {
    return {
      limits: this.#limits,
      tenant,
      clocks: this.#clocks,
      admittedAt: started,
      parent,
      chunks,
      observer,
      tracked,
    } satisfies PrepareOptions;
  }

  /** Validates the call, after the `validate` hooks. Synchronous without an observer, unless the arguments are large. */
  #validate(
    observer: CallObserver | undefined,
    envelope: CallEnvelope,
    context: NamedContext,
    prepare: PrepareOptions,
    timeoutMs: number | undefined,
  ): ValidatedCall | Promise<ValidatedCall> {
    const validate: ValidateOptions = {
      bounds: prepare.tenant.inputBounds,
      thread: this.#thread,
      isGated: this.#isGated,
      arguments: this.#arguments,
      isUpdated: this.#isUpdated,
      startClock: (tool) => startCall(tool, context, prepare, timeoutMs).clock,
    };
    if (observer === undefined) return validateCall(envelope, context, this.#registry, validate);
    return this.#validateObserved(observer, envelope, context, { validate, prepare, timeoutMs });
  }

  /** Executes a prepared call and normalizes its outcome. */
  async #execute(
    { facts, observer, chunks, flight }: CallRun,
    tool: RegisteredTool,
    call: PreparedCall,
    tracked: TrackedCall,
  ): Promise<ToolResult> {
    if (observer !== undefined) await observer.prepare(call);
    if (chunks !== undefined) chunks.reading = toReading(call);
    const log = new CallLog(call.limits, call.context.onLog);
    call.chain.log = log;
    // Before the circuit breaker admits the call, because an admitted call must be tried.
    if (observer !== undefined) await observer.execute(call);
    const admission = this.#health.admit(tool.executor, call.tenantId);
    tracked.state = "running";
    const executed = withBytes(await executeCall(tool.executor, call, log), call, chunks?.bytes ?? 0);
    if (executed.isCharged === true) flight.quotas = undefined;
    tracked.state = "ending";
    // The outcome of an old version says nothing about the version that replaced it, and a removed tool has no health.
    this.#health.record(tool.executor, call.tenantId, admission, this.#hasEnded(tool) ? undefined : executed);
    const noted = observer === undefined ? executed : await observer.afterExecute(executed);
    const execution = tracked.cancelled === undefined ? noted : { usage: noted.usage, error: tracked.cancelled };
    const usage = { ...execution.usage, logsDropped: execution.usage.logsDropped + log.dropped };
    const ended = { ...facts, usage, logs: log.entries, calls: call.chain.calls };
    const options = {
      tool,
      limits: call.limits,
      thread: this.#thread,
      signal: call.signal,
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
  }

  /** Returns the result of a call that failed outside its executor. */
  async #fail(run: CallRun, thrown: unknown): Promise<ToolResult> {
    const { facts, tracked } = run;
    const error = tracked?.cancelled ?? toToolError(thrown);
    const failed = toFailure(facts, error);
    if (run.observer === undefined) {
      if (this.#observerSources === undefined) return this.#report(failed, error);
      run.observer = new CallObserver(this.#observerSources, facts);
    }
    const result = await run.observer.result(failed, async (given) => toFailure(facts, toHookError(given)), tracked);
    return this.#end(run.observer, result, error);
  }

  /** Tracks the call: from here on `listCalls` has it. */
  #accept(
    accepted: TrackedCall | undefined,
    { callId, toolName, started }: ResultMetadata,
    { tenantId, sessionId }: CallContext & { readonly tenantId: string },
    parent: CallChain | undefined,
  ): TrackedCall {
    if (accepted === undefined) {
      return this.#calls.begin({
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

  /** Validates the call as the `validate` hooks admitted it. */
  async #validateObserved(
    observer: CallObserver,
    envelope: CallEnvelope,
    context: NamedContext,
    { validate, prepare, timeoutMs }: ObservedOptions,
  ): Promise<ValidatedCall> {
    const tool = versionOf(this.#registry.get(envelope.toolName, context.tenantId), context.toolVersion);
    observer.beginValidate();
    const admitted =
      tool === undefined
        ? envelope
        : await admitObserved(observer, envelope, context, { tool, validate, prepare, timeoutMs });
    return await validateCall(admitted, context, this.#registry, { ...validate, decided: { tool } });
  }

  #end(observer: CallObserver, result: ToolResult, error: ToolError | undefined): ToolResult {
    const timeline = observer.timeline?.end(result.success ? "ok" : result.error.code);
    const shown = timeline === undefined ? result : { ...result, timeline };
    observer.ended(shown, error);
    return this.#report(shown, error);
  }

  /** Reports a failure that is not the tool's to the operator, with its cause. */
  #report(result: ToolResult, error: ToolError | undefined): ToolResult {
    if (result.success) return result;
    const { code, message } = result.error;
    // The caller of a host function is not shown the cause of its failure; the operator is.
    const isOurs = code === "INTERNAL" || (HIDES_CAUSE.has(code) && error?.cause !== undefined);
    if (isOurs) notifySafely(this.#onInternalError, error ?? new ToolError("INTERNAL", message));
    return result;
  }
}

/** Codes of failures whose cause is for the operator only. */
const HIDES_CAUSE: ReadonlySet<ErrorCode> = new Set(["TOOL_FAILED", "TOOL_UNAVAILABLE"]);

const eitherOf = (caller: AbortSignal | undefined, stop: AbortSignal): AbortSignal =>
  caller === undefined ? stop : AbortSignal.any([caller, stop]);

function toReading({ limits, definition, signal }: PreparedCall): ChunkReading {
  const bounds = { bytes: limits.outputBytes, depth: limits.jsonDepth, values: limits.jsonValues };
  return { bounds, what: `A chunk of the output of ${definition.name}`, signal };
}

interface ObservedOptions {
  readonly validate: ValidateOptions;
  readonly prepare: PrepareOptions;
  readonly timeoutMs: number | undefined;
}

/**
 * Returns the call as its `validate` hooks admitted it.
 * @throws {ToolError} as a rejection, if a hook denies the call
 */
async function admitObserved(
  observer: CallObserver,
  envelope: CallEnvelope,
  context: NamedContext,
  { tool, validate, prepare, timeoutMs }: ObservedOptions & { readonly tool: RegisteredTool },
): Promise<CallEnvelope> {
  const { clock, deadlineAt } = startCall(tool, context, prepare, timeoutMs);
  using own = clock;
  observer.found(tool.definition, tool.executor.source, prepare.tenant, { until: deadlineAt, signal: own.signal });
  if (!observer.hasHook("validate")) return envelope;
  const { callId, toolName } = envelope;
  const copy = (args: unknown): Promise<ToolValue> => copyArguments({ toolName, arguments: args }, tool, validate);
  const coerced = await coerceCall(envelope, tool, context, validate);
  const args = await observer.validate(await copyArguments(coerced, tool, validate), copy);
  return { callId, toolName, arguments: args, coercions: coerced.coercions };
}
