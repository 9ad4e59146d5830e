// What a run is given: parsed once, with the defaults stated here.
import * as z from "zod";
import type { ToolDefinition } from "../../sandbox/definition.ts";
import { ToolError } from "../../sandbox/errors.ts";
import type { ToolContext } from "../tool-call.ts";
import type { AgentState, ClaimState } from "./agent-state.ts";
import { checkStateKey } from "./agent-state.ts";
import type { ApprovalDecisions, ApprovalRule } from "./approval.ts";
import { type AgentRouter, type CallRouter, toCallRouter, toolsOf } from "./call-tool.ts";
import type { Message, Model, ModelRequest } from "./model.ts";
import type { StopCondition } from "./stop-conditions.ts";

/** Whose calls they are, and how they run: as for `router.execute`, but for what the loop sets itself. */
export type AgentContext = Omit<ToolContext, "signal" | "onLog" | "onProgress" | "stepId" | "deterministic">;

/** Which of the tenant's tools the model may use: their names, or a function of each definition. */
export type ToolFilter = readonly string[] | ((definition: ToolDefinition) => boolean);

/** What a loop is made with, and each run may state otherwise. */
export interface AgentLoopOptions {
  readonly model?: Model | undefined;
  readonly router?: AgentRouter | undefined;
  readonly context?: AgentContext | undefined;
  /** All unless stated. A tool that is not among them is not run, whatever name the model makes up. */
  readonly tools?: ToolFilter | undefined;
  /** Turns of the model, 1 to 1,000; 16 unless stated. */
  readonly maxSteps?: number | undefined;
  /** Calls of one turn that run at one time, 1 to 10; 4 unless stated. */
  readonly maxParallelTools?: number | undefined;
  /** One is enough to end the run. */
  readonly stopWhen?: StopCondition | readonly StopCondition[] | undefined;
  /** Which calls wait for approval; none unless stated. */
  readonly needsApproval?: ApprovalRule | undefined;
  /** A secret of the host's own, of 32 bytes at least: states are sealed with it, and others refused. */
  readonly stateKey?: string | Uint8Array | undefined;
  /** For the first turn; `none` holds for all. `auto` unless stated. */
  readonly toolChoice?: ModelRequest["toolChoice"];
  /** What the answer must be, by JSON Schema. */
  readonly responseSchema?: ModelRequest["responseSchema"];
  /** What the model is shown of the conversation in each turn, which itself stays whole: `trimConversation`, for instance. */
  readonly prepareMessages?:
    | ((messages: readonly Message[]) => readonly Message[] | Promise<readonly Message[]>)
    | undefined;
  /** Told of what went wrong besides tools, with its cause: for the operator's log. */
  readonly onError?: ((error: ToolError) => void) | undefined;
}

interface StartOptions {
  /** The conversation so far. Calls in it without an answer get one (`mendConversation`); they are not run. */
  readonly messages: readonly Message[];
  readonly state?: undefined;
}

interface ResumeOptions {
  readonly messages?: undefined;
  /** What a run that has paused left; from anywhere, as an object or as text. */
  readonly state: AgentState | string | unknown;
  /** For each call that waits. */
  readonly decisions: ApprovalDecisions;
  /** So that no call runs twice. `() => true` allows a state to be resumed as often as somebody likes. */
  readonly claim: ClaimState;
}

export type RunOptions = AgentLoopOptions &
  (StartOptions | ResumeOptions) & {
    /** Ends the run: the model is left, and tools that run are killed, each with its answer (CANCELLED). */
    readonly signal?: AbortSignal | undefined;
  };

export const functionSchema: z.ZodType<(...args: readonly unknown[]) => unknown> = z.custom<
  (...args: readonly unknown[]) => unknown
>((value) => typeof value === "function", "Expected a function");

const OptionsSchema = z.object({
  model: functionSchema,
  maxSteps: z.int().min(1).max(1_000).default(16),
  maxParallelTools: z.int().min(1).max(10).default(4),
  stopWhen: z.union([functionSchema.transform((one) => [one]), z.array(functionSchema)]).default([]),
  needsApproval: z.union([z.literal("destructive"), z.array(z.string()), functionSchema]).optional(),
  tools: z.union([z.array(z.string()), functionSchema]).optional(),
  prepareMessages: functionSchema.optional(),
  onError: functionSchema.optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

/** Fields of a ToolContext that a caller may think to state there. */
const OWN_FIELDS = ["signal", "onLog", "onProgress", "stepId"] as const;

/** @throws {ToolError} PARAM_INVALID for a field that would be replaced without a word */
export function checkContext(context: AgentContext | undefined): AgentContext {
  const own = OWN_FIELDS.find((field) => context !== undefined && field in context);
  if (own === undefined) return context ?? {};
  const right = own === "signal" ? "state it beside the context" : "its events tell of it";
  throw new ToolError("PARAM_INVALID", `context.${own}: the run has its own; ${right}`);
}

/** A run's options, with nothing left to decide. */
export interface RunSettings extends AgentLoopOptions {
  readonly model: Model;
  readonly callRouter: CallRouter;
  readonly context: AgentContext;
  readonly maxSteps: number;
  readonly maxParallelTools: number;
  readonly stopConditions: readonly StopCondition[];
  readonly signal: AbortSignal | undefined;
}

/** @throws {ToolError} PARAM_INVALID, naming each option that is wrong */
export function parseWith<Schema extends z.ZodType>(schema: Schema, options: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(options);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => ({ pointer: path.join("."), message }));
  const text = problems.map(({ pointer, message }) => `${pointer}: ${message}`).join("; ");
  throw new ToolError("PARAM_INVALID", text, { details: { problems } });
}

/** @throws {ToolError} PARAM_INVALID, naming each option that is wrong */
export function parseRunOptions(
  options: AgentLoopOptions & { readonly signal?: AbortSignal | undefined },
): RunSettings {
  const { maxSteps, maxParallelTools, stopWhen } = parseWith(OptionsSchema, options);
  checkStateKey(options.stateKey);
  return {
    ...options,
    model: options.model as Model,
    callRouter: toCallRouter(options.router),
    context: checkContext(options.context),
    ...{ maxSteps, maxParallelTools, stopConditions: stopWhen as unknown as readonly StopCondition[] },
    signal: options.signal,
  };
}

/** The tools that a turn is offered, by name. */
export async function offeredTools(
  { callRouter, tools }: Pick<RunSettings, "callRouter" | "tools">,
  tenantId: string | undefined,
): Promise<ReadonlyMap<string, ToolDefinition>> {
  const all = await toolsOf(callRouter, tenantId);
  const isOffered = (definition: ToolDefinition): boolean => {
    if (tools === undefined) return true;
    return typeof tools === "function" ? tools(definition) : tools.includes(definition.name);
  };
  return new Map(all.filter(isOffered).map((definition) => [definition.name, definition]));
}
