// Options of AgentLoop: parsed strictly when a loop is made and when it runs, merged, and completed with the defaults.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { mergeDefined } from "../util/merge-defined.ts";
import { type AgentContext, checkTenant, checkValues, mergeContexts } from "./agent-context.ts";
import { type AgentState, StateKeySchema } from "./agent-state.ts";
import type { ApprovalDecisions, ApprovalRule } from "./approval.ts";
import { type AgentRouter, type CallRouter, toCallRouter } from "./call-tool.ts";
import type { ClaimState } from "./claims.ts";
import type { Message, Model, ModelRequest } from "./model.ts";
import type { ToolFilter } from "./offered-tools.ts";
import {
  expected,
  functionSchema,
  ResponseSchemaSchema,
  SignalSchema,
  sharedFields,
  ToolNameSchema,
  ToolNamesSchema,
} from "./option-schemas.ts";
import type { StopCondition } from "./stop-conditions.ts";

/**
 * Options of a loop; each run may replace them. In a run, a field that is undefined means "not given": the loop's own stays in force.
 * Unknown fields and wrong types are rejected with PARAM_INVALID, when the loop is made and when it runs.
 */
export interface AgentLoopOptions {
  readonly model?: Model | undefined;
  readonly router?: AgentRouter | undefined;
  /** A run's context is merged into the loop's, field by field. A run that names another tenant than its loop is rejected. */
  readonly context?: AgentContext | undefined;
  /** @default all tools of the tenant. A tool that is not among them is not run, whatever name the model makes up. */
  readonly tools?: ToolFilter | undefined;
  /** Turns of the model, 1 to 1,000. @default 16 */
  readonly maxSteps?: number | undefined;
  /** Calls of one turn that run at one time, 1 to 10. @default 4 */
  readonly maxParallelTools?: number | undefined;
  /** The run ends after a step for which one of them returns true. */
  readonly stopWhen?: StopCondition | readonly StopCondition[] | undefined;
  /** Which calls wait for approval. Requires a `stateKey`. @default none */
  readonly needsApproval?: ApprovalRule | undefined;
  /**
   * A secret of the host, at least 32 bytes: paused states are signed with it, and a state is resumed only with a valid signature.
   * Required to resume a state, and where `needsApproval` can pause a run. `"unsigned"` is the explicit choice to do without: then any
   * process that can change a stored state decides which calls run as approved.
   */
  readonly stateKey?: string | Uint8Array | undefined;
  /** For the first turn; `none` holds for all. @default "auto" */
  readonly toolChoice?: ModelRequest["toolChoice"] | undefined;
  /** JSON Schema of the answer. */
  readonly responseSchema?: ModelRequest["responseSchema"] | undefined;
  /**
   * Returns the messages that the model is shown in each turn, with `trimConversation` for example; the conversation itself stays whole.
   * The run fails if it throws, returns anything else, or takes longer than 300 s.
   */
  readonly prepareMessages?:
    | ((messages: readonly Message[]) => readonly Message[] | Promise<readonly Message[]>)
    | undefined;
  /** Receives failures of the model and of other host functions, with their cause: for the operator's log. */
  readonly onError?: ((error: ToolError) => void) | undefined;
}

interface StartOptions {
  /** The conversation so far. Calls in it without an answer get one (`mendConversation`); they are not run. */
  readonly messages: readonly Message[];
  readonly state?: undefined;
}

interface ResumeOptions {
  readonly messages?: undefined;
  /** The state of a paused run, as an object or as text. */
  readonly state: AgentState | string | unknown;
  /** One for each call that waits. */
  readonly decisions: ApprovalDecisions;
  /** Returns true the first time that it is called for a state, so that no call runs twice. `() => true` allows any number of times. */
  readonly claim: ClaimState;
}

export type AgentRunOptions = AgentLoopOptions &
  (StartOptions | ResumeOptions) & {
    /** Ends the run at once: the model is left, and running tools are killed, each with its answer (CANCELLED). */
    readonly signal?: AbortSignal | undefined;
  };

const loopFields = {
  ...sharedFields,
  maxSteps: z.int().min(1).max(1_000).optional(),
  maxParallelTools: z.int().min(1).max(10).optional(),
  stopWhen: z
    .union([functionSchema, z.array(functionSchema)], expected("a function or an array of functions"))
    .optional(),
  needsApproval: z
    .union(
      [z.literal("destructive"), ToolNamesSchema, functionSchema],
      expected('"destructive", an array of tool names or a function'),
    )
    .optional(),
  stateKey: StateKeySchema.optional(),
  toolChoice: z
    .union(
      [z.enum(["auto", "none", "required"]), strictObject({ toolName: ToolNameSchema })],
      expected('"auto", "none", "required" or { toolName }'),
    )
    .optional(),
  responseSchema: ResponseSchemaSchema.optional(),
  prepareMessages: functionSchema.optional(),
};
const LoopSchema = strictObject(loopFields);
const anything = z.unknown().optional();
const RunSchema = strictObject({
  ...loopFields,
  signal: SignalSchema.optional(),
  // Parsed where they are used, in this order: a state says which decisions are needed.
  ...{ messages: anything, state: anything, decisions: anything, claim: anything },
});

/** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
export function parseLoopOptions(options: unknown): AgentLoopOptions {
  const parsed = parseOptions(LoopSchema, options, "options") as AgentLoopOptions;
  if (parsed.context !== undefined) checkValues(parsed.context, "options.");
  return parsed;
}

/** The options of one run, merged and with nothing left to decide. */
export interface RunSettings extends AgentLoopOptions {
  readonly model: Model;
  readonly callRouter: CallRouter;
  readonly context: AgentContext;
  readonly maxSteps: number;
  readonly maxParallelTools: number;
  readonly stopConditions: readonly StopCondition[];
  readonly signal: AbortSignal | undefined;
}

/** The input of a run as its caller passed it, not parsed yet. */
export interface RunInput {
  readonly messages?: unknown;
  readonly state?: unknown;
  readonly decisions?: unknown;
  readonly claim?: unknown;
}

/** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
export function parseRunOptions(own: AgentLoopOptions, given: unknown): { settings: RunSettings; input: RunInput } {
  const { messages, state, decisions, claim, ...options } = parseOptions(RunSchema, given, "options");
  const run = options as AgentLoopOptions & { readonly signal?: AbortSignal | undefined };
  if (run.context !== undefined) checkValues(run.context, "options.");
  const merged = mergeDefined(own, run);
  const { maxSteps = 16, maxParallelTools = 4, stopWhen = [] } = merged;
  requireStateKey(merged, state !== undefined);
  const callRouter = toCallRouter(merged.router, "options.router");
  const context = mergeContexts(own.context, run.context, "options.context");
  checkTenant(callRouter, context, "options.context");
  const settings: RunSettings = {
    ...merged,
    model: requireModel(merged.model),
    ...{ callRouter, context },
    ...{ maxSteps, maxParallelTools },
    stopConditions: typeof stopWhen === "function" ? [stopWhen] : stopWhen,
    signal: run.signal,
  };
  return { settings, input: { messages, state, decisions, claim } };
}

/** @throws {ToolError} PARAM_INVALID if neither the agent nor the run has a model */
export function requireModel(model: Model | undefined): Model {
  if (model !== undefined) return model;
  throw new ToolError("PARAM_INVALID", "options.model: Expected a function, got undefined");
}

/** Without a key a state could come from anywhere, and its calls would run as approved: that takes an explicit choice. */
function requireStateKey({ stateKey, needsApproval }: AgentLoopOptions, isResumed: boolean): void {
  if (stateKey !== undefined || (!isResumed && needsApproval === undefined)) return;
  const why = isResumed ? "to resume a state" : "because needsApproval can pause the run";
  throw new ToolError(
    "PARAM_INVALID",
    `options.stateKey: Expected a secret of at least 32 bytes ${why}; "unsigned" does without a signature`,
  );
}
