// When a conversation has gone far enough: plain functions over its steps, and ways to put them together.
import type { ToolResult } from "../tool-call.ts";
import type { AssistantMessage, FinishReason, Message, ModelUsage } from "./model.ts";

/** One turn of the model, and the results of the calls that it made, in their order. */
export interface AgentStep {
  readonly message: AssistantMessage;
  readonly results: readonly ToolResult[];
  readonly reason: FinishReason;
  readonly usage?: ModelUsage;
}

export interface StopState {
  /** Those of this run; of a resumed one since it was resumed. */
  readonly steps: readonly AgentStep[];
  /** Of the whole conversation's run, with what was before a pause. */
  readonly stepCount: number;
  readonly messages: readonly Message[];
  /** Of all steps. */
  readonly usage: ModelUsage;
}

/** Asked after each step in which the model made calls, when all of them have been answered. True ends the run. */
export type StopCondition = (state: StopState) => boolean | Promise<boolean>;

const lastResults = ({ steps }: StopState): readonly ToolResult[] => steps.at(-1)?.results ?? [];

/** After the step in which this tool was called, whatever came of it. */
export const whenCalled =
  (toolName: string): StopCondition =>
  (state) =>
    lastResults(state).some((result) => result.toolName === toolName);

/** After the step in which this tool succeeded: for a tool that takes a conversation's final answer. */
export const whenSucceeded =
  (toolName: string): StopCondition =>
  (state) =>
    lastResults(state).some((result) => result.success && result.toolName === toolName);

/** After so many steps in a row in each of which calls were made and all of them failed. */
export const afterFailedSteps =
  (count: number): StopCondition =>
  ({ steps }) =>
    steps.length >= count &&
    steps.slice(-count).every(({ results }) => results.length > 0 && results.every(({ success }) => !success));

/** When the model has written so many tokens in all, as far as it has told. */
export const afterOutputTokens =
  (count: number): StopCondition =>
  ({ usage }) =>
    usage.outputTokens >= count;

/** When one of them says so; the later ones are not asked then. */
export const anyOf =
  (...conditions: readonly StopCondition[]): StopCondition =>
  async (state) => {
    for (const condition of conditions) if (await condition(state)) return true;
    return false;
  };

/** When all of them say so; after the first that does not, none is asked. */
export const allOf =
  (...conditions: readonly StopCondition[]): StopCondition =>
  async (state) => {
    for (const condition of conditions) if (!(await condition(state))) return false;
    return true;
  };
