// Options of AgentLoop: parsed strictly for the loop and for each run, merged, and completed with the defaults.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { mergeDefined } from "../../util/merge-defined.ts";
import type { Message, Model, ModelRequest } from "../model.ts";
import {
  AbortSignalSchema,
  expected,
  functionSchema,
  ResponseSchemaSchema,
  sharedFields,
  ToolNameOptionSchema,
  ToolNamesSchema,
} from "../option-schemas.ts";
import { type AgentRouter, type CallRouter, toCallRouter } from "../tools/call-tool.ts";
import type { ToolFilter } from "../tools/offered-tools.ts";
import type { ApprovalDecisions, ApprovalRule } from "./agent-approval-rule.ts";
import { type AgentContext, checkTenant, checkValues, mergeContexts } from "./agent-context.ts";
import { type AgentState, SigningKeySchema } from "./agent-state.ts";
import type { IdempotencyStore } from "./idempotency-store.ts";
import type { StopCondition } from "./stop-conditions.ts";

/**
 * Options of a loop. Each run can override them. In a run, an undefined field keeps the loop's value. Unknown fields and wrong types are
 * rejected with PARAM_INVALID, both in the constructor and for each run.
 */
export interface AgentLoopOptions {
  /** The model. Required here or in each run. */
  readonly model?: Model | undefined;
  /** Runs the calls: a Glovebox or a ToolRouter. Required here or in each run. */
  readonly router?: AgentRouter | undefined;
  /** A run's context is merged field by field into the loop's. A run that names a tenant other than the loop's is rejected. */
  readonly context?: AgentContext | undefined;
  /** Tools that the model may call. A call of any other name is answered with an error. @default all tools of the tenant */
  readonly tools?: ToolFilter | undefined;
  /** Number of model turns, 1 to 1,000. @default 16 */
  readonly maxSteps?: number | undefined;
  /** Number of calls of one turn that run at the same time, 1 to 10. @default 4 */
  readonly maxParallelTools?: number | undefined;
  /** The run ends after a step for which one of these conditions returns true. */
  readonly stopWhen?: StopCondition | readonly StopCondition[] | undefined;
  /** Which calls wait for approval. Requires a `signingKey`. @default none */
  readonly needsApproval?: ApprovalRule | undefined;
  /**
   * A secret of the host, at least 32 bytes. Paused states are signed with it, and a state is resumed only if its signature is valid.
   * Required to resume a state, and where `needsApproval` can pause a run. `"unsigned"` explicitly turns signing off: then any process
   * that can change a stored state decides which calls run as approved.
   */
  readonly signingKey?: string | Uint8Array | undefined;
  /** Applies to the first turn; `"none"` applies to all turns. @default "auto" */
  readonly toolChoice?: ModelRequest["toolChoice"] | undefined;
  /** JSON Schema of the model's answer. */
  readonly responseSchema?: ModelRequest["responseSchema"] | undefined;
  /**
   * Returns the messages that the model is shown in each turn, for example with `trimConversation`. The run's own conversation is not
   * changed. The run fails if the function throws, returns anything other than messages, or takes longer than 300 s.
   */
  readonly prepareMessages?:
    | ((messages: readonly Message[]) => readonly Message[] | Promise<readonly Message[]>)
    | undefined;
  /** Receives failures of the model and of host functions, with their cause, for the operator's log. */
  readonly onError?: ((error: ToolError) => void) | undefined;
}

interface StartOptions {
  /** The conversation so far. Unanswered calls in it are not run; each receives an answer as in `repairConversation`. */
  readonly messages: readonly Message[];
  readonly state?: undefined;
}

interface ResumeOptions {
  readonly messages?: undefined;
  /** The state of a paused run, as an object or as JSON text. */
  readonly state: AgentState | string | unknown;
  /** One decision for each pending call. */
  readonly approvals: ApprovalDecisions;
  /** Records which states were resumed, so that no call runs twice. `{ claim: () => true }` allows repeated resumption. */
  readonly idempotencyStore: IdempotencyStore;
}

/** Options of one run: overrides of the loop's options, and either `messages` to start with or the `state` of a paused run. */
export type AgentRunOptions = AgentLoopOptions &
  (StartOptions | ResumeOptions) & {
    /** Cancels the run: the model's stream is closed, and running tools are killed and answered with CANCELLED. */
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
  signingKey: SigningKeySchema.optional(),
  toolChoice: z
    .union(
      [z.enum(["auto", "none", "required"]), strictObject({ toolName: ToolNameOptionSchema })],
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
  signal: AbortSignalSchema.optional(),
  // Parsed where they are used, in this order, because the state determines which decisions are needed.
  messages: anything,
  state: anything,
  approvals: anything,
  idempotencyStore: anything,
});

/** @throws {ToolError} PARAM_INVALID, naming the path of each invalid option */
export function parseLoopOptions(options: unknown): AgentLoopOptions {
  const parsed = parseOptions(LoopSchema, options, "options") as AgentLoopOptions;
  if (parsed.context !== undefined) checkValues(parsed.context, "options.");
  return parsed;
}

/** The options of one run, merged and with all defaults set. */
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
export interface AgentRunInput {
  readonly messages?: unknown;
  readonly state?: unknown;
  readonly approvals?: unknown;
  readonly idempotencyStore?: unknown;
}

/** @throws {ToolError} PARAM_INVALID, naming the path of each invalid option */
export function parseRunOptions(
  own: AgentLoopOptions,
  given: unknown,
): { settings: RunSettings; input: AgentRunInput } {
  const { messages, state, approvals, idempotencyStore, ...options } = parseOptions(RunSchema, given, "options");
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
    callRouter,
    context,
    maxSteps,
    maxParallelTools,
    stopConditions: typeof stopWhen === "function" ? [stopWhen] : stopWhen,
    signal: run.signal,
  };
  return { settings, input: { messages, state, approvals, idempotencyStore } };
}

/** @throws {ToolError} PARAM_INVALID if neither the agent nor the run has a model */
export function requireModel(model: Model | undefined): Model {
  if (model !== undefined) return model;
  throw new ToolError("PARAM_INVALID", "options.model: Expected a function, got undefined");
}

/** Without a key, a state could come from anywhere and its calls would run as approved, so the host must choose that explicitly. */
function requireStateKey({ signingKey, needsApproval }: AgentLoopOptions, isResumed: boolean): void {
  if (signingKey !== undefined || (!isResumed && needsApproval === undefined)) return;
  const why = isResumed ? "to resume a state" : "because needsApproval can pause the run";
  throw new ToolError(
    "PARAM_INVALID",
    `options.signingKey: Expected a secret of at least 32 bytes ${why}; "unsigned" turns signing off`,
  );
}
