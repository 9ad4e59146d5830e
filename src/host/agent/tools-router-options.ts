// Options of ToolsRouterAgent: parsed strictly when an agent is made and for each request, merged, and completed with the defaults.
import * as z from "zod";
import type { ToolError, ToolErrorData } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { type ArgumentOptions, ArgumentOptionsSchema } from "../pipeline/amend.ts";
import { mergeDefined } from "../util/merge-defined.ts";
import { type AgentContext, checkTenant, checkValues, mergeContexts } from "./agent-context.ts";
import { requireModel } from "./agent-options.ts";
import { type AgentRouter, type CallRouter, toCallRouter } from "./call-tool.ts";
import type { Message, Model } from "./model.ts";
import type { ToolFilter } from "./offered-tools.ts";
import { expected, functionSchema, SignalSchema, sharedFields } from "./option-schemas.ts";

/** What a user wants: text, or a conversation that ends in what the user has said last. */
export type ToolsRequest = string | readonly Message[];

/** Where a request ended without its tool's result; `none`: no tool fits. */
export type FallbackStage = "routing" | "tool" | "answer" | "none";

/** What the user is told where there is no answer of the model's. `error` is the operator's to read, not the user's. */
export type Fallback = string | ((stage: FallbackStage, error: ToolErrorData | undefined) => string);

/**
 * Options of an agent; each request may replace them. In a request, a field that is undefined means "not given": the agent's own stays in
 * force. Unknown fields and wrong types are rejected with PARAM_INVALID, when the agent is made and for each request.
 */
export interface ToolsRouterOptions {
  readonly model?: Model | undefined;
  readonly router?: AgentRouter | undefined;
  /** A request's context is merged into the agent's, field by field. A request that names another tenant than its agent is rejected. */
  readonly context?: AgentContext | undefined;
  /**
   * What is done with inputs that the tool would not take as they are: keys that its schema does not name are pruned unless stated
   * otherwise, and the result's `amendments` tell of each. Before what is stated for the tool or the router.
   */
  readonly arguments?: ArgumentOptions | undefined;
  /** Which tools there are to choose from; all of the tenant's unless stated. */
  readonly tools?: ToolFilter | undefined;
  /** Tools that the model is shown, 1 to 200; where there are more, the best of a search by the request. 20 unless stated. */
  readonly maxTools?: number | undefined;
  /** Told to the model beside the rules, when it chooses and when it answers. */
  readonly instructions?: string | undefined;
  /** How often the model may choose again, after a reply that cannot be used or inputs that are not valid: 0 to 10; 2 unless stated. */
  readonly routingRetries?: number | undefined;
  /**
   * How often a tool that failed is run again, where trying again can help: 0 to 10; 1 unless stated. Never one whose annotations say
   * `destructiveHint: true` and not `idempotentHint: true`.
   */
  readonly toolRetries?: number | undefined;
  /** Before the n-th retry it waits n times as long, in ms, 0 to 60,000; 700 unless stated. */
  readonly backoffMs?: number | undefined;
  /** Whether `stream` tells what a tool yields as it comes; true unless stated. */
  readonly streamTools?: boolean | undefined;
  /** Whether the model puts the result into words; true unless stated. Else `text` is empty, or the fallback. */
  readonly answer?: boolean | undefined;
  /** Whether the provider is told the form of a decision as a JSON Schema; true unless stated. False for those that refuse one. */
  readonly responseSchema?: boolean | undefined;
  readonly fallback?: Fallback | undefined;
  /** Told of what went wrong besides tools, with its cause: for the operator's log. */
  readonly onError?: ((error: ToolError) => void) | undefined;
  /** Ends the request: the model is left, and a tool that runs is killed. */
  readonly signal?: AbortSignal | undefined;
}

const OptionsSchema = strictObject({
  ...sharedFields,
  arguments: ArgumentOptionsSchema.optional(),
  maxTools: z.int().min(1).max(200).optional(),
  instructions: z.string().max(100_000).optional(),
  routingRetries: z.int().min(0).max(10).optional(),
  toolRetries: z.int().min(0).max(10).optional(),
  backoffMs: z.number().min(0).max(60_000).optional(),
  streamTools: z.boolean().optional(),
  answer: z.boolean().optional(),
  responseSchema: z.boolean().optional(),
  fallback: z.union([z.string(), functionSchema], expected("text or a function")).optional(),
  signal: SignalSchema.optional(),
});

/** A request's options, with nothing left to decide. */
export interface ToolsRouterSettings extends ToolsRouterOptions {
  readonly model: Model;
  readonly callRouter: CallRouter;
  readonly context: AgentContext;
  readonly maxTools: number;
  readonly routingRetries: number;
  readonly toolRetries: number;
  readonly backoffMs: number;
  readonly streamTools: boolean;
  readonly answer: boolean;
  readonly responseSchema: boolean;
}

/** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
export function parseToolsRouterOptions(options: unknown): ToolsRouterOptions {
  const parsed = parseOptions(OptionsSchema, options, "options") as ToolsRouterOptions;
  if (parsed.context !== undefined) checkValues(parsed.context, "options.");
  return parsed;
}

/** Merges the options of one request into the agent's. @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong */
export function toSettings(own: ToolsRouterOptions, given: unknown): ToolsRouterSettings {
  const run = parseToolsRouterOptions(given);
  const merged = mergeDefined(own, run);
  const context = mergeContexts(own.context, run.context, "options.context");
  const callRouter = toCallRouter(merged.router, "options.router");
  checkTenant(callRouter, context, "options.context");
  const handling = [context.arguments, own.arguments, run.arguments].reduce<ArgumentOptions>(
    (before, next) => mergeDefined(before, next),
    { unknownKeys: "prune" },
  );
  const { maxTools = 20, routingRetries = 2, toolRetries = 1, backoffMs = 700 } = merged;
  const { streamTools = true, answer = true, responseSchema = true } = merged;
  return {
    ...merged,
    ...{ maxTools, routingRetries, toolRetries, backoffMs, streamTools, answer, responseSchema },
    model: requireModel(merged.model),
    callRouter,
    context: { ...context, arguments: handling },
  };
}
