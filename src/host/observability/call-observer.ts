// Connects a call to its observers: hooks, telemetry and the operator's log. Created only if one of them is configured, so that other calls
// have no overhead.
import { setMaxListeners } from "node:events";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { type ErrorCode, ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { describedContext } from "../capabilities/call-scope.ts";
import type { CapabilityContext } from "../capabilities/capability.ts";
import type { TimelineSpan } from "../contract/timeline-span.ts";
import type { CallContext, ToolResult } from "../contract/tool-call.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { TrackedCall } from "../routing/open-calls.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import type { HookCall, HookStage, HookStageName } from "./hooks/hook-events.ts";
import { type Hooks, type HookWait, leftMsOf, modifyError } from "./hooks/hooks.ts";
import type { HostLog } from "./operator-log.ts";
import type { CallSpan, CapabilitySpan } from "./telemetry/call-span.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";
import { type CapabilityUse, Timeline } from "./timeline.ts";
import { ToolSpans } from "./tool-spans.ts";

/** Time in ms for the `result` hooks of a call that has no time left. */
const RESULT_HOOKS_MS = 50;

/** Runs code of a telemetry provider. An exception must not fail the call. */
function tryRun<Value>(run: () => Value): Value | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

export interface ObserverSources {
  readonly hooks?: Hooks | undefined;
  readonly telemetry?: Telemetry | undefined;
  readonly log?: HostLog | undefined;
}

/** Data of a call when it starts. */
export interface CallStart {
  readonly callId: string;
  readonly toolName: string;
  /** Start time by performance.now(). */
  readonly started: number;
  readonly context?: (CallContext & { readonly tenantId: string }) | undefined;
  readonly isNested?: boolean;
}

/** Observes one call. */
export class CallObserver {
  readonly #hooks: Hooks | undefined;
  readonly #log: HostLog | undefined;
  readonly #span: CallSpan | undefined;
  /** Undefined if the caller did not ask for it. */
  readonly timeline: Timeline | undefined;
  readonly call: HookCall;
  readonly #started: number;
  #definition: ToolDefinition | undefined;
  #tenant: TenantPolicy | undefined;
  #stage: { readonly name: HookStage; readonly began: number } | undefined;
  #wait: HookWait;
  /** Undefined until the tool reports a span, or if nothing shows them. */
  #toolSpans: ToolSpans | undefined;

  constructor(
    { hooks, telemetry, log }: ObserverSources,
    { callId, toolName, started, context, isNested = false }: CallStart,
  ) {
    this.#hooks = hooks;
    this.#log = log;
    const { tenantId = "", executionId, stepId } = context ?? {};
    this.call = Object.freeze({
      callId,
      toolName,
      tenantId,
      ...(executionId === undefined ? {} : { executionId }),
      ...(stepId === undefined ? {} : { stepId }),
    });
    this.#started = started;
    this.timeline = context?.timeline === true ? new Timeline(started) : undefined;
    this.#span = tryRun(() => telemetry?.begin(this.call, started, context, isNested));
    this.#wait = { until: started + (context?.timeoutMs ?? Number.POSITIVE_INFINITY), signal: context?.signal };
  }

  hasHook(name: HookStageName): boolean {
    return this.#hooks?.has(name) === true;
  }

  #beginStage(name: HookStage): void {
    this.#endStage("ok");
    this.#stage = { name, began: performance.now() };
    this.#hooks?.observe({ call: this.call, stage: name, phase: "begin" });
  }

  #endStage(code: "ok" | ErrorCode): void {
    const stage = this.#stage;
    if (stage === undefined) return;
    this.#stage = undefined;
    const durationMs = performance.now() - stage.began;
    this.#hooks?.observe({ call: this.call, stage: stage.name, phase: "end", durationMs, code });
  }

  /** Reports the tool of the call and the time limit for hooks. */
  found(definition: ToolDefinition, source: string, tenant: TenantPolicy, wait: HookWait): void {
    this.#definition = definition;
    this.#tenant = tenant;
    this.#wait = wait;
    tryRun(() => this.#span?.found(definition, source, tenant));
  }

  beginValidate(): void {
    this.#beginStage("validate");
  }

  /** @throws {ToolError} a hook's rejection, an error of `copy`, or the reason why the call has ended */
  async validate(args: ToolValue, copy: (args: unknown) => ToolValue | Promise<ToolValue>): Promise<ToolValue> {
    const definition = this.#definition as ToolDefinition;
    const event = { call: this.call, definition, arguments: args };
    const modified = await this.#hooks?.callStage("validate", event, this.#wait, async (current, given) => ({
      ...current,
      arguments: await copy(given.arguments),
    }));
    this.#wait.signal?.throwIfAborted();
    return modified === undefined ? args : modified.arguments;
  }

  /** @throws {ToolError} a hook's rejection, or the reason why the call has ended */
  async prepare({ inputText, deadlineAt, clock, signal }: PreparedCall): Promise<void> {
    this.#wait = { until: deadlineAt, clock, signal };
    // Each request that waits for a hook adds a listener, and a call may have hundreds of requests.
    if (this.hasHook("capability") || this.hasHook("capabilityResult")) setMaxListeners(0, signal);
    this.#beginStage("prepare");
    tryRun(() => this.#span?.validated(inputText));
    const definition = this.#definition as ToolDefinition;
    if (this.hasHook("prepare")) await this.#callHooks("prepare", { call: this.call, definition });
    signal.throwIfAborted();
  }

  /** @throws {ToolError} as `prepare` does */
  async execute({ limits, deadlineAt, signal }: PreparedCall): Promise<void> {
    this.#beginStage("execute");
    const definition = this.#definition as ToolDefinition;
    if (this.hasHook("execute")) await this.#callHooks("execute", { call: this.call, definition, limits, deadlineAt });
    signal.throwIfAborted();
    this.#span?.executing();
    this.timeline?.executing(limits);
  }

  /** Returns the execution, or an error if a hook rejected it. */
  async afterExecute(execution: Execution): Promise<Execution> {
    const { usage } = execution;
    const code = "error" in execution ? execution.error.code : "ok";
    const ended = performance.now();
    tryRun(() => this.#span?.executed(execution, this.#toolSpans));
    this.timeline?.executed(usage, code, ended, this.#toolSpans);
    this.#endStage(code);
    this.#beginStage("afterExecute");
    if (!this.hasHook("afterExecute")) return execution;
    const definition = this.#definition as ToolDefinition;
    try {
      await this.#callHooks("afterExecute", { call: this.call, definition, usage, code });
      return execution;
    } catch (thrown) {
      return { usage, error: toToolError(thrown) };
    }
  }

  async #callHooks<Name extends "prepare" | "execute" | "afterExecute">(
    name: Name,
    event: Parameters<typeof Hooks.prototype.callStage<Name>>[1],
  ): Promise<void> {
    await this.#hooks?.callStage(name, event, this.#wait, (current) => current);
  }

  /**
   * Returns the result, as modified by hooks. Never rejects.
   * @param remake converts a hook's output or error to a result, like the tool's own
   * @param tracked ends the wait for hooks when the host ends the call
   */
  async result(
    result: ToolResult,
    remake: (given: { readonly output: unknown } | { readonly error: ToolError }) => Promise<ToolResult>,
    tracked?: TrackedCall,
  ): Promise<ToolResult> {
    this.#endStage(result.success ? "ok" : result.error.code);
    if (!this.hasHook("result")) return result;
    try {
      const until = performance.now() + Math.max(leftMsOf(this.#wait), RESULT_HOOKS_MS);
      // Hooks still receive the result of a call that the host has cancelled.
      const signal = tracked?.cancelled === undefined ? tracked?.signal : undefined;
      const modified = await this.#hooks?.callStage(
        "result",
        { call: this.call, result },
        { until, signal },
        async (event, given) => ({
          ...event,
          result: await remake(
            "output" in given
              ? { output: given.output }
              : { error: modifyError(event.result.success ? undefined : event.result.error, given.error as never) },
          ),
        }),
      );
      return modified?.result ?? result;
    } catch (thrown) {
      return await remake({ error: toToolError(thrown) });
    }
  }

  /** Reports the end of the call. */
  ended(result: ToolResult, error: ToolError | undefined): void {
    this.#endStage(result.success ? "ok" : result.error.code);
    tryRun(() => this.#span?.ended(result, this.#started));
    this.#log?.ended(this.call, result, error, this.#tenant);
    this.#hooks?.observe({ call: this.call, stage: "result", phase: "end", result });
  }

  toolSpan(time: number, text: string): void {
    if (this.timeline === undefined && this.#span === undefined) return;
    this.#toolSpans ??= new ToolSpans();
    this.#toolSpans.report(time, text);
  }

  /** Returns the spans so far of a call that runs; undefined if its caller did not ask for a timeline. */
  timelineSoFar(max: number): readonly TimelineSpan[] | undefined {
    return this.timeline?.soFar(max, this.#toolSpans);
  }

  /** The span that host functions run within. */
  get span(): CallSpan | undefined {
    return this.#span;
  }

  /**
   * Calls the hooks for one input of a capability: the tool's own, and each request that the host derives from it, such as the target of a
   * redirect.
   * @returns the input, possibly modified; wrapped in an object, so that a promise as an input is not awaited
   * @throws {ToolError} a hook's rejection, or the reason why the call has ended
   */
  async callCapabilityHooks(capability: string, input: unknown): Promise<{ readonly input: unknown }> {
    const event = { call: this.call, capability, input };
    const asked = await this.#hooks?.callStage("capability", event, this.#wait, (current, given) => ({
      ...current,
      ...given,
    }));
    this.#wait.signal?.throwIfAborted();
    return asked ?? event;
  }

  /** Runs one capability call. Hooks modify the input and the output before each is validated. */
  async capability(
    capability: string,
    input: unknown,
    context: CapabilityContext,
    run: (input: unknown, context: CapabilityContext, modify: (output: unknown) => Promise<unknown>) => Promise<string>,
  ): Promise<string> {
    const began = performance.now();
    const { call } = this;
    const wait = this.#wait;
    this.#hooks?.observe({ call, stage: "capability", phase: "begin", capability });
    let code: "ok" | ErrorCode = "ok";
    let span: CapabilitySpan | undefined;
    const use: CapabilityUse | undefined = this.timeline?.beginCapability(capability);
    try {
      const given = this.hasHook("capability") ? (await this.callCapabilityHooks(capability, input)).input : input;
      span = tryRun(() => this.#span?.capability(capability, context));
      const modify = async (output: unknown): Promise<unknown> => {
        if (!this.hasHook("capabilityResult")) return output;
        const event = { call, capability, output };
        const modified = await this.#hooks?.callStage("capabilityResult", event, wait, (current, given) => ({
          ...current,
          ...given,
        }));
        return modified === undefined ? output : modified.output;
      };
      const traced = span?.context ?? context;
      const own = use === undefined ? traced : describedContext(traced, use);
      if (span === undefined) return await run(given, own, modify);
      return await span.within(() => run(given, own, modify));
    } catch (thrown) {
      code = Error.isError(thrown) && thrown instanceof ToolError ? thrown.code : "TOOL_FAILED";
      throw thrown;
    } finally {
      tryRun(() => span?.ended(code));
      use?.ended(code);
      this.#hooks?.observe({
        call,
        stage: "capability",
        phase: "end",
        capability,
        code,
        durationMs: performance.now() - began,
      });
    }
  }
}
