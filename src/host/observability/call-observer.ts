// What looks at calls from outside: hooks, telemetry, the operator's log. Made for a call only where there is any of them, so that
// the others pay nothing.
import { setMaxListeners } from "node:events";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { type ErrorCode, ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import type { CapabilityContext } from "../capabilities/capability.ts";
import type { ToolContext, ToolResult } from "../contract/tool-call.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { TrackedCall } from "../routing/open-calls.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import {
  type AskName,
  amendError,
  type HookCall,
  type HookStage,
  type Hooks,
  type HookWait,
  leftMsOf,
} from "./hooks/hooks.ts";
import type { HostLog } from "./operator-log.ts";
import type { CallSpan, CapabilitySpan, Telemetry } from "./telemetry/telemetry.ts";

/** For what was amended in a call that has no time left. */
const LAST_GRACE_MS = 50;

/** A provider of the host's own that throws costs no call. */
function quietly<Value>(run: () => Value): Value | undefined {
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

/** What is known of a call when it begins. */
export interface CallStart {
  readonly callId: string;
  readonly toolName: string;
  /** By performance.now(). */
  readonly started: number;
  readonly context?: (ToolContext & { readonly tenantId: string }) | undefined;
  readonly isNested?: boolean;
}

/** One for each call. */
export class CallObserver {
  readonly #hooks: Hooks | undefined;
  readonly #log: HostLog | undefined;
  readonly #span: CallSpan | undefined;
  readonly call: HookCall;
  readonly #started: number;
  #definition: ToolDefinition | undefined;
  #tenant: TenantPolicy | undefined;
  #stage: { readonly name: HookStage; readonly began: number } | undefined;
  #wait: HookWait;

  constructor(
    { hooks, telemetry, log }: ObserverSources,
    { callId, toolName, started, context, isNested = false }: CallStart,
  ) {
    this.#hooks = hooks;
    this.#log = log;
    const { tenantId = "", executionId, stepId } = context ?? {};
    this.call = Object.freeze({
      ...{ callId, toolName, tenantId },
      ...(executionId === undefined ? {} : { executionId }),
      ...(stepId === undefined ? {} : { stepId }),
    });
    this.#started = started;
    this.#span = quietly(() => telemetry?.begin(this.call, started, context, isNested));
    this.#wait = { until: started + (context?.timeoutMs ?? Number.POSITIVE_INFINITY), signal: context?.signal };
  }

  asks(name: AskName): boolean {
    return this.#hooks?.has(name) === true;
  }

  #begin(name: HookStage): void {
    this.#end("ok");
    this.#stage = { name, began: performance.now() };
    this.#hooks?.observe({ call: this.call, stage: name, phase: "begin" });
  }

  #end(code: "ok" | ErrorCode): void {
    const stage = this.#stage;
    if (stage === undefined) return;
    this.#stage = undefined;
    const durationMs = performance.now() - stage.began;
    this.#hooks?.observe({ call: this.call, stage: stage.name, phase: "end", durationMs, code });
  }

  /** The tool is known from here on, and how long the call may take. */
  found(definition: ToolDefinition, source: string, tenant: TenantPolicy, wait: HookWait): void {
    this.#definition = definition;
    this.#tenant = tenant;
    this.#wait = wait;
    quietly(() => this.#span?.found(definition, source, tenant));
  }

  beginValidate(): void {
    this.#begin("validate");
  }

  /** @throws {ToolError} a hook's refusal, what `copy` refuses, or what has ended the call meanwhile */
  async validate(args: ToolValue, copy: (args: unknown) => ToolValue | Promise<ToolValue>): Promise<ToolValue> {
    const definition = this.#definition as ToolDefinition;
    const event = { call: this.call, definition, arguments: args };
    const amended = await this.#hooks?.ask("validate", event, this.#wait, async (current, given) => ({
      ...current,
      arguments: await copy(given.arguments),
    }));
    this.#wait.signal?.throwIfAborted();
    return amended === undefined ? args : amended.arguments;
  }

  /** @throws {ToolError} a hook's refusal, or what has ended the call meanwhile */
  async prepare({ inputText, deadlineAt, clock, signal }: PreparedCall): Promise<void> {
    this.#wait = { until: deadlineAt, clock, signal };
    // Each request that waits for a hook listens, and a call may have hundreds.
    if (this.asks("capability") || this.asks("capabilityResult")) setMaxListeners(0, signal);
    this.#begin("prepare");
    quietly(() => this.#span?.validated(inputText));
    const definition = this.#definition as ToolDefinition;
    if (this.asks("prepare")) await this.#ask("prepare", { call: this.call, definition });
    signal.throwIfAborted();
  }

  /** @throws {ToolError} as `prepare` */
  async execute({ limits, deadlineAt, signal }: PreparedCall): Promise<void> {
    this.#begin("execute");
    const definition = this.#definition as ToolDefinition;
    if (this.asks("execute")) await this.#ask("execute", { call: this.call, definition, limits, deadlineAt });
    signal.throwIfAborted();
    this.#span?.executing();
  }

  /** What the execution came to, unless a hook has refused that. */
  async normalize(execution: Execution): Promise<Execution> {
    const { usage } = execution;
    const code = "error" in execution ? execution.error.code : "ok";
    quietly(() => this.#span?.executed(execution));
    this.#end(code);
    this.#begin("normalize");
    if (!this.asks("normalize")) return execution;
    const definition = this.#definition as ToolDefinition;
    try {
      await this.#ask("normalize", { call: this.call, definition, usage, code });
      return execution;
    } catch (thrown) {
      return { usage, error: toToolError(thrown) };
    }
  }

  async #ask<Name extends "prepare" | "execute" | "normalize">(
    name: Name,
    event: Parameters<typeof Hooks.prototype.ask<Name>>[1],
  ): Promise<void> {
    await this.#hooks?.ask(name, event, this.#wait, (current) => current);
  }

  /**
   * The result as hooks leave it. Never rejects.
   * @param remake makes a result of an output or an error that a hook has put in, as the tool's own would be
   * @param tracked ends the wait for hooks when the host ends the call
   */
  async result(
    result: ToolResult,
    remake: (given: { readonly output: unknown } | { readonly error: ToolError }) => Promise<ToolResult>,
    tracked?: TrackedCall,
  ): Promise<ToolResult> {
    this.#end(result.success ? "ok" : result.error.code);
    if (!this.asks("result")) return result;
    try {
      const until = performance.now() + Math.max(leftMsOf(this.#wait), LAST_GRACE_MS);
      // Hooks are shown the result of a call that the host has ended, as of any other.
      const signal = tracked?.cancelled === undefined ? tracked?.signal : undefined;
      const amended = await this.#hooks?.ask(
        "result",
        { call: this.call, result },
        { until, signal },
        async (event, given) => ({
          ...event,
          result: await remake(
            "output" in given
              ? { output: given.output }
              : { error: amendError(event.result.success ? undefined : event.result.error, given.error as never) },
          ),
        }),
      );
      return amended?.result ?? result;
    } catch (thrown) {
      return await remake({ error: toToolError(thrown) });
    }
  }

  /** The last that is heard of the call. */
  ended(result: ToolResult, error: ToolError | undefined): void {
    this.#end(result.success ? "ok" : result.error.code);
    quietly(() => this.#span?.ended(result, this.#started));
    this.#log?.ended(this.call, result, error, this.#tenant);
    this.#hooks?.observe({ call: this.call, stage: "result", phase: "end", result });
  }

  /** What a host function runs within, and finds in its context. */
  get span(): CallSpan | undefined {
    return this.#span;
  }

  /**
   * Asks the hooks for one input of a capability: the tool's own, and each request that the host makes of it in its turn, such as the
   * target of a redirect.
   * @returns the input as the hooks amended it, or the given one; in an object, so that a promise in its place is not waited for
   * @throws {ToolError} a hook's rejection, or what has ended the call meanwhile
   */
  async askCapability(capability: string, input: unknown): Promise<{ readonly input: unknown }> {
    const event = { call: this.call, capability, input };
    const asked = await this.#hooks?.ask("capability", event, this.#wait, (current, given) => ({
      ...current,
      ...given,
    }));
    this.#wait.signal?.throwIfAborted();
    return asked ?? event;
  }

  /** Runs one capability call; hooks amend its input before it is validated, and its output before that is. */
  async capability(
    capability: string,
    input: unknown,
    context: CapabilityContext,
    run: (input: unknown, context: CapabilityContext, amend: (output: unknown) => Promise<unknown>) => Promise<string>,
  ): Promise<string> {
    const began = performance.now();
    const { call } = this;
    const wait = this.#wait;
    this.#hooks?.observe({ call, stage: "capability", phase: "begin", capability });
    let code: "ok" | ErrorCode = "ok";
    let span: CapabilitySpan | undefined;
    try {
      const given = this.asks("capability") ? (await this.askCapability(capability, input)).input : input;
      span = quietly(() => this.#span?.capability(capability, context));
      const amend = async (output: unknown): Promise<unknown> => {
        if (!this.asks("capabilityResult")) return output;
        const event = { call, capability, output };
        const amended = await this.#hooks?.ask("capabilityResult", event, wait, (current, given) => ({
          ...current,
          ...given,
        }));
        return amended === undefined ? output : amended.output;
      };
      if (span === undefined) return await run(given, context, amend);
      const { context: own } = span;
      return await span.within(() => run(given, own, amend));
    } catch (thrown) {
      code = Error.isError(thrown) && thrown instanceof ToolError ? thrown.code : "TOOL_FAILED";
      throw thrown;
    } finally {
      quietly(() => span?.ended(code));
      this.#hooks?.observe({
        ...{ call, stage: "capability", phase: "end", capability, code },
        durationMs: performance.now() - began,
      });
    }
  }
}
