// Runs one call: admission, validate → prepare → execute → normalize, and its hooks. Always returns a ToolResult, and never throws.
import { type ErrorCode, ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { LIMITS, type PartialLimits } from "../../sandbox/contract/limits.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
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
  noSuchTool,
  type ValidateOptions,
  validateCall,
} from "../pipeline/validate.ts";
import { withBytes } from "../tenants/call-meter.ts";
import { policyTooLate } from "../tenants/policy-cache.ts";
import { accountsOf, type QuotaAccount, quotaTooLate } from "../tenants/quotas/tenant-quotas.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import type { TenantPolicies, TenantPolicy } from "../tenants/tenant-policies.ts";
import type { TenantStates } from "../tenants/tenant-states.ts";
import { notifySafely } from "../util/host-callback.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { CallChain } from "./call-chain.ts";
import type { CheckedToolRegistry } from "./checked-registry.ts";
import type { Discoveries } from "./discovery.ts";
import type { SourceHealthRegistry } from "./health/source-health.ts";
import { toExecution, toHookError } from "./hook-output.ts";
import type { OpenCalls, TrackedCall } from "./open-calls.ts";
import { readContextAfter, readNames, tryReadEnvelope } from "./read-call.ts";
import type { RegisteredTool } from "./registry.ts";
import type { ToolGate } from "./tool-gate.ts";
import { versionOf, withVersion } from "./tool-release.ts";

/** Parts of the router that a call uses. */
export interface CallRunnerDependencies {
  readonly registry: CheckedToolRegistry;
  readonly calls: OpenCalls;
  readonly clocks: Clocks;
  readonly thread: SchemaThread;
  readonly tenancy: Tenancy;
  readonly tenants: TenantPolicies;
  readonly tenantStates: TenantStates;
  readonly limits: PartialLimits;
  readonly arguments: ArgumentOptions | undefined;
  /** Undefined if all tools are enabled for every tenant. */
  readonly gate: ToolGate | undefined;
  readonly health: SourceHealthRegistry;
  readonly discoveries: Discoveries;
  /** Undefined if nothing observes calls, which makes them faster. */
  readonly observerSources: ObserverSources | undefined;
  readonly onInternalError: ((error: ToolError) => unknown) | undefined;
  /** Returns whether a later version replaced this one. */
  readonly isUpdated: (tool: RegisteredTool) => boolean;
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

export class CallRunner {
  readonly #registry: CheckedToolRegistry;
  readonly #calls: OpenCalls;
  readonly #clocks: Clocks;
  readonly #thread: SchemaThread;
  readonly #tenancy: Tenancy;
  readonly #tenants: TenantPolicies;
  readonly #tenantStates: TenantStates;
  readonly #limits: PartialLimits;
  readonly #arguments: ArgumentOptions | undefined;
  readonly #gate: ToolGate | undefined;
  readonly #health: SourceHealthRegistry;
  readonly #discoveries: Discoveries;
  readonly #observerSources: ObserverSources | undefined;
  readonly #onInternalError: ((error: ToolError) => unknown) | undefined;
  readonly #isUpdated: (tool: RegisteredTool) => boolean;
  /** Whether new calls, other than nested ones, are rejected because the router shuts down. */
  isDraining = false;

  constructor(dependencies: CallRunnerDependencies) {
    this.#registry = dependencies.registry;
    this.#calls = dependencies.calls;
    this.#clocks = dependencies.clocks;
    this.#thread = dependencies.thread;
    this.#tenancy = dependencies.tenancy;
    this.#tenants = dependencies.tenants;
    this.#tenantStates = dependencies.tenantStates;
    this.#limits = dependencies.limits;
    this.#arguments = dependencies.arguments;
    this.#gate = dependencies.gate;
    this.#health = dependencies.health;
    this.#discoveries = dependencies.discoveries;
    this.#observerSources = dependencies.observerSources;
    this.#onInternalError = dependencies.onInternalError;
    this.#isUpdated = dependencies.isUpdated;
  }

  /** Runs one call. Never throws and never rejects: every failure is a ToolResult. */
  async run(
    toolCall: ToolCall,
    context: CallContext | undefined,
    timeoutMs: number | undefined,
    { flight, parent, stream, accepted, issue: known }: CallOptions,
  ): Promise<ToolResult> {
    const started = performance.now();
    let facts: ResultMetadata = { ...readNames(toolCall), started };
    let observer: CallObserver | undefined;
    let tracked = accepted;
    try {
      if (this.#clocks.isClosed) throw unavailable("closed", "Glovebox is closed");
      if (this.isDraining && parent === undefined) throw unavailable("shutting_down", "Glovebox is shutting down");
      // A malformed call counts against its tenant too.
      const { envelope, issue } =
        known === undefined ? tryReadEnvelope(toolCall, timeoutMs) : { envelope: undefined, issue: known };
      if (envelope !== undefined) facts = { callId: envelope.callId, toolName: envelope.toolName, started };
      const given = readContextAfter(context, parent === undefined ? this.#tenancy : undefined, issue);
      const read = stream === undefined ? given : { ...given, signal: eitherOf(given.signal, stream.stop) };
      flight.tenantId = read.tenantId;
      this.#tenantStates.check(read.tenantId, parent !== undefined);
      tracked = this.#accept(accepted, facts, read, parent);
      const waiting = { admittedAt: started, timeoutMs, tracked };
      const found = this.#tenants.of(read.tenantId);
      let tenant: TenantPolicy;
      // A known policy costs a warm call no `await`.
      if ("wait" in found) {
        tenant = await this.#waitWithin(read, waiting, {
          wait: (signal) => found.wait(signal),
          tooLate: (withinMs) => policyTooLate(read.tenantId, withinMs),
        });
        // The tenant may have been suspended meanwhile.
        this.#tenantStates.check(read.tenantId, parent !== undefined);
      } else tenant = found;
      const chunks = stream?.chunks;
      if (this.#observerSources !== undefined || read.timeline === true) {
        const begun = { ...facts, context: read, isNested: parent !== undefined };
        observer = new CallObserver(this.#observerSources ?? {}, begun);
        tracked.progress = observer;
      }
      const quotas = accountsOf(read, tenant);
      if (quotas !== undefined) {
        const admission = this.#tenantStates.quotas.admit(quotas, read.signal);
        if (admission !== undefined) {
          await this.#waitWithin(read, waiting, {
            wait: (signal) => untilAborted(admission, signal),
            tooLate: quotaTooLate,
          });
          this.#tenantStates.check(read.tenantId, parent !== undefined);
        }
        flight.quotas = quotas;
      }
      if (envelope === undefined) throw issue;
      if (tracked.cancelled !== undefined) throw tracked.cancelled;
      if (this.#gate !== undefined) await this.#checkGate(this.#gate, tracked, read, timeoutMs);
      const isUnknown =
        this.#discoveries.size > 0 && this.#registry.get(envelope.toolName, read.tenantId) === undefined;
      if (isUnknown) {
        await this.#discover(envelope.toolName, read.tenantId, read, waiting);
      }
      const versioned = withVersion(read, envelope.toolName, this.#registry.get(envelope.toolName, read.tenantId));
      if (versioned.toolVersion !== undefined) facts = { ...facts, toolVersion: versioned.toolVersion };
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
        startClock: (tool) => startCall(tool, versioned, prepare, timeoutMs).clock,
      };
      const admitted =
        observer === undefined
          ? { envelope }
          : await this.#admit(observer, envelope, versioned, validate, prepare, timeoutMs);
      const checks = "decided" in admitted ? { ...validate, decided: admitted.decided } : validate;
      const validating = validateCall(admitted.envelope, versioned, this.#registry, checks);
      // Small values are validated synchronously: omitting the `await` shortens a warm call by a few microseconds.
      const validated = validating instanceof Promise ? await validating : validating;
      if (validated.coercions !== undefined) facts = { ...facts, coercions: validated.coercions };
      using preparation = prepareCall(validated, prepare, timeoutMs);
      const { call } = preparation;
      if (observer !== undefined) await observer.prepare(call);
      if (chunks !== undefined) chunks.reading = toReading(call);
      const log = new CallLog(call.limits, call.context.onLog);
      call.chain.log = log;
      const { executor } = validated.tool;
      // Before the circuit breaker admits the call, because an admitted call must be tried.
      if (observer !== undefined) await observer.execute(call);
      const admission = this.#health.admit(executor, call.tenantId);
      tracked.state = "running";
      const executed = withBytes(await executeCall(executor, call, log), call, chunks?.bytes ?? 0);
      tracked.state = "ending";
      // The outcome of an old version says nothing about the version that replaced it.
      if (!this.#isUpdated(validated.tool)) this.#health.record(executor, call.tenantId, admission, executed);
      const noted = observer === undefined ? executed : await observer.afterExecute(executed);
      const execution = tracked.cancelled === undefined ? noted : { usage: noted.usage, error: tracked.cancelled };
      const usage = { ...execution.usage, logsDropped: execution.usage.logsDropped + log.dropped };
      const ended = { ...facts, usage, logs: log.entries, calls: call.chain.calls };
      const options = {
        tool: validated.tool,
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
    } catch (thrown) {
      const error = tracked?.cancelled ?? toToolError(thrown);
      const failed = toFailure(facts, error);
      if (observer === undefined) {
        if (this.#observerSources === undefined) return this.#report(failed, error);
        observer = new CallObserver(this.#observerSources, facts);
      }
      const result = await observer.result(failed, async (given) => toFailure(facts, toHookError(given)), tracked);
      return this.#end(observer, result, error);
    } finally {
      if (tracked !== undefined) this.#calls.end(tracked);
    }
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

  /**
   * Returns the call as `validate` hooks admitted it, and the tool that they decided about.
   * @throws {ToolError} as a rejection, if a hook denies the call
   */
  async #admit(
    observer: CallObserver,
    envelope: CallEnvelope,
    context: NamedContext,
    validate: ValidateOptions,
    prepare: PrepareOptions,
    timeoutMs: number | undefined,
  ): Promise<{ readonly envelope: CallEnvelope; readonly decided: { readonly tool: RegisteredTool | undefined } }> {
    const tool = versionOf(this.#registry.get(envelope.toolName, context.tenantId), context.toolVersion);
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
    const timeline = observer.timeline?.end(result.success ? "ok" : result.error.code);
    const shown = timeline === undefined ? result : { ...result, timeline };
    observer.ended(shown, error);
    return this.#report(shown, error);
  }

  /** Checks the tool's flag before the registry is read, so that a disabled tool cannot be told from a missing one, nor by its response time. */
  async #checkGate(
    gate: ToolGate,
    tracked: TrackedCall,
    { tenantId, timeoutMs: contextMs, signal }: NamedContext,
    ownMs: number | undefined,
  ): Promise<void> {
    const timeouts = [ownMs, contextMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const { toolName } = tracked;
    const isOn = await gate.isOn(
      { tenantId, toolName },
      {
        timeoutMs: Math.min(...timeouts),
        // Read only if a flag is asynchronous.
        get signal() {
          return tracked.signalWith(signal);
        },
      },
    );
    if (!isOn) throw noSuchTool(toolName);
  }

  /**
   * Waits for a tenant's policy or quota within the call's timeout, as far as it is known without them. The tool has not begun, so a wait
   * that takes too long is a failure of what it waits for.
   */
  async #waitWithin<Value>(
    { tenantId, signal: caller, timeoutMs: contextMs }: NamedContext,
    { admittedAt, timeoutMs, tracked }: FindOptions,
    { wait, tooLate }: HostWait<Value>,
  ): Promise<Value> {
    const { toolName } = tracked;
    // With flags, the length of the wait must not reveal whether the tool exists.
    const tool = this.#gate === undefined ? this.#registry.get(toolName, tenantId) : undefined;
    const configured = [this.#limits, tool?.hostLimits, { timeoutMs: contextMs }, { timeoutMs }];
    const { timeoutMs: withinMs } = resolveLimits(configured, tool?.authorLimits, tool?.defaultLimits);
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller, tenantId, admittedAt, tracked });
    try {
      return await wait(clock.signal);
    } catch (thrown) {
      const { reason } = clock.signal;
      const isTimeout = thrown === reason && reason instanceof ToolError && reason.code === "TOOL_TIMEOUT";
      throw isTimeout ? tooLate(withinMs) : thrown;
    }
  }

  /** Queries the tool providers that may have a tool of an unknown name, within the call's timeout. */
  async #discover(toolName: string, tenantId: string, context: CallContext, options: FindOptions): Promise<void> {
    const providers = this.#discoveries.listWith(toolName, tenantId);
    if (providers.length === 0) return;
    const { admittedAt, timeoutMs, tracked } = options;
    const timeouts = [timeoutMs, context.timeoutMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const withinMs = Math.min(LIMITS.timeoutMs.max, ...timeouts);
    const { signal: caller } = context;
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller, tenantId, admittedAt, tracked });
    const outcomes = await Promise.allSettled(
      providers.map((source) => this.#discoveries.discover(source, tenantId, clock.signal)),
    );
    if (this.#registry.get(toolName, tenantId) !== undefined) return;
    clock.signal.throwIfAborted();
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
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

/** A wait for the host, before a call begins. */
interface HostWait<Value> {
  readonly wait: (signal: AbortSignal) => Promise<Value>;
  readonly tooLate: (timeoutMs: number) => ToolError;
}

interface FindOptions {
  readonly admittedAt: number;
  readonly timeoutMs: number | undefined;
  readonly tracked: TrackedCall;
}

/** Codes of failures whose cause is for the operator only. */
const HIDES_CAUSE: ReadonlySet<ErrorCode> = new Set(["TOOL_FAILED", "TOOL_UNAVAILABLE"]);

const eitherOf = (caller: AbortSignal | undefined, stop: AbortSignal): AbortSignal =>
  caller === undefined ? stop : AbortSignal.any([caller, stop]);

function toReading({ limits, definition, signal }: PreparedCall): ChunkReading {
  const bounds = { bytes: limits.outputBytes, depth: limits.jsonDepth, values: limits.jsonValues };
  return { bounds, what: `A chunk of the output of ${definition.name}`, signal };
}
