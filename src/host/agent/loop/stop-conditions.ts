// Stop conditions: functions of a run's steps that end the run, and functions that combine them.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import type { ToolResult } from "../../contract/tool-call.ts";
import { runCallback } from "../../util/host-callback.ts";
import { GUARD_TIMEOUT_MS } from "../callback-bounds.ts";
import type { AssistantMessage, FinishReason, Message, ModelUsage } from "../model.ts";
import { functionSchema, ToolNameOptionSchema } from "../option-schemas.ts";

/** One turn of the model, and the results of its calls in the order of the calls. */
export interface AgentStep {
  readonly message: AssistantMessage;
  readonly results: readonly ToolResult[];
  readonly reason: FinishReason;
  readonly usage?: ModelUsage;
}

/** What a {@link StopCondition} receives: the run until now. */
export interface StopState {
  /** Steps of this run; for a resumed run, the steps since it was resumed. */
  readonly steps: readonly AgentStep[];
  /** Number of steps including those before a pause. */
  readonly stepCount: number;
  /** The whole conversation. */
  readonly messages: readonly Message[];
  /** Total of all steps. */
  readonly usage: ModelUsage;
}

/**
 * Called after each step in which the model made calls, when all of them have an answer. `true` ends the run; `false` continues it. The run
 * fails if a condition throws, returns anything else, or takes longer than 30 s: a limit that cannot be checked counts as reached.
 */
export type StopCondition = (state: StopState) => boolean | Promise<boolean>;

/**
 * Returns the answer of a condition. Rejects with INTERNAL if the condition fails or returns anything other than a boolean, and with the
 * signal's reason as soon as the signal aborts.
 */
export async function checkCondition(
  condition: StopCondition,
  state: StopState,
  signal?: AbortSignal,
): Promise<boolean> {
  const outcome = await runCallback(() => condition(state), { timeoutMs: GUARD_TIMEOUT_MS, signal });
  signal?.throwIfAborted();
  if ("answer" in outcome && typeof outcome.answer === "boolean") return outcome.answer;
  const issue = "answer" in outcome ? `returned ${describeKind(outcome.answer)}` : outcome.failed;
  const cause = "answer" in outcome ? undefined : outcome.cause;
  // The error of a nested condition is more specific.
  if (Error.isError(cause) && cause instanceof ToolError) throw cause;
  throw new ToolError("INTERNAL", `A stop condition ${issue}; it must return true or false`, { cause });
}

const lastResults = ({ steps }: StopState): readonly ToolResult[] => steps.at(-1)?.results ?? [];

const CountSchema = z.int().min(1);
const ConditionsSchema = z.array(functionSchema).min(1, "Expected at least one condition");

/**
 * Stops after a step in which this tool was called, whether it succeeded or failed.
 * @throws {ToolError} PARAM_INVALID for a value that is not a tool name
 */
export function whenCalled(toolName: string): StopCondition {
  const name = parseOptions(ToolNameOptionSchema, toolName, "toolName");
  return (state) => lastResults(state).some((result) => result.toolName === name);
}

/**
 * Stops after a step in which this tool succeeded. Useful for a tool that receives the final answer of a conversation.
 * @throws {ToolError} PARAM_INVALID for a value that is not a tool name
 */
export function whenSucceeded(toolName: string): StopCondition {
  const name = parseOptions(ToolNameOptionSchema, toolName, "toolName");
  return (state) => lastResults(state).some((result) => result.success && result.toolName === name);
}

/**
 * Stops after `count` consecutive steps in which the model made calls and all of them failed.
 * @param count 1 or more
 * @throws {ToolError} PARAM_INVALID for another count
 */
export function afterFailedSteps(count: number): StopCondition {
  const max = parseOptions(CountSchema, count, "count");
  return ({ steps }) =>
    steps.length >= max &&
    steps.slice(-max).every(({ results }) => results.length > 0 && results.every(({ success }) => !success));
}

/**
 * Stops when the model has written at least `count` tokens in total, as far as it reports them.
 * @param count 1 or more
 * @throws {ToolError} PARAM_INVALID for another count
 */
export function afterOutputTokens(count: number): StopCondition {
  const max = parseOptions(CountSchema, count, "count");
  return ({ usage }) => usage.outputTokens >= max;
}

/**
 * Stops when one of the conditions is true. Later conditions are then not called.
 * @throws {ToolError} PARAM_INVALID without conditions, and for a value that is not a function
 * @example
 * ```ts
 * import { AgentLoop, afterFailedSteps, afterOutputTokens, anyOf, whenSucceeded } from "glovebox/agent";
 *
 * const stopWhen = anyOf(whenSucceeded("answer"), afterFailedSteps(3), afterOutputTokens(20_000));
 * const loop = new AgentLoop({ stopWhen });
 * ```
 */
export function anyOf(...conditions: readonly StopCondition[]): StopCondition {
  const parsed = parseConditions(conditions);
  return async (state) => {
    for (const condition of parsed) if (await checkCondition(condition, state)) return true;
    return false;
  };
}

/**
 * Stops when all of the conditions are true. Conditions after the first false one are not called.
 * @throws {ToolError} PARAM_INVALID without conditions, and for a value that is not a function
 */
export function allOf(...conditions: readonly StopCondition[]): StopCondition {
  const parsed = parseConditions(conditions);
  return async (state) => {
    for (const condition of parsed) if (!(await checkCondition(condition, state))) return false;
    return true;
  };
}

const parseConditions = (conditions: readonly StopCondition[]): readonly StopCondition[] =>
  parseOptions(ConditionsSchema, conditions, "conditions") as unknown as readonly StopCondition[];
