// Options of ToolsRouterAgent: parsed strictly for the agent and for each request, merged, and completed with the defaults.
import * as z from "zod";
import type { ToolError, ToolErrorData } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { type ArgumentOptions, ArgumentOptionsSchema } from "../../pipeline/coercion.ts";
import { mergeDefined } from "../../util/merge-defined.ts";
import { type AgentContext, checkTenant, checkValues, mergeContexts } from "../loop/agent-context.ts";
import { requireModel } from "../loop/agent-options.ts";
import type { Message, Model } from "../model.ts";
import { AbortSignalSchema, expected, functionSchema, sharedFields } from "../option-schemas.ts";
import { type AgentRouter, type CallRouter, toCallRouter } from "../tools/call-tool.ts";
import type { ToolFilter } from "../tools/offered-tools.ts";

/** A user's request: text, or a conversation whose last message is the user's. */
export type ToolsRequest = string | readonly Message[];

/** The stage at which a request ended without an answer by the model. `none` means that no tool fits. */
export type FallbackStage = "routing" | "tool" | "answer" | "none";

/** The text for the user when the model gives no answer. `error` is for the operator; do not show it to the user. */
export type Fallback = string | ((stage: FallbackStage, error: ToolErrorData | undefined) => string);

/**
 * Options of an agent. Each request can override them. In a request, an undefined field keeps the agent's value. Unknown fields and wrong
 * types are rejected with PARAM_INVALID, both in the constructor and for each request.
 */
export interface ToolsRouterOptions {
  /** The model. Required here or in each request. */
  readonly model?: Model | undefined;
  /** Runs the calls: a Glovebox or a ToolRouter. Required here or in each request. */
  readonly router?: AgentRouter | undefined;
  /** Merged field by field with the agent's context. A request that names a tenant other than the agent's is rejected. */
  readonly context?: AgentContext | undefined;
  /**
   * How to handle inputs that do not match the tool's schema. Takes precedence over the settings of the tool and of the router. The
   * result's `coercions` list each change.
   * @default { unknownKeys: "prune" }
   */
  readonly arguments?: ArgumentOptions | undefined;
  /** Tools to choose from. @default all tools of the tenant */
  readonly tools?: ToolFilter | undefined;
  /** Number of tools that the model is shown, 1 to 200. If there are more, a search picks the best matches. @default 20 */
  readonly maxTools?: number | undefined;
  /** Instructions for the model, added to the agent's own for both the choice and the answer. */
  readonly instructions?: string | undefined;
  /** How often the model may choose again after an unusable reply or invalid inputs, 0 to 10. @default 2 */
  readonly routingRetries?: number | undefined;
  /**
   * How often a failed tool is run again if a retry can help, 0 to 10. A tool with `destructiveHint: true` and without
   * `idempotentHint: true` is never run again (of an upstream server, `idempotentHint` counts with `trustAnnotations` only). A tool without
   * annotations is run again, also after a timeout: annotate tools that have effects, or set 0.
   * @default 1
   */
  readonly toolRetries?: number | undefined;
  /** Delay in ms before a retry, multiplied by the number of the retry, 0 to 60,000. @default 700 */
  readonly backoffMs?: number | undefined;
  /** Whether `stream` yields the chunks of a streaming tool. @default true */
  readonly streamTools?: boolean | undefined;
  /** Whether the model words the answer. If false, `text` is empty or the fallback. @default true */
  readonly answer?: boolean | undefined;
  /** Whether the request for a decision carries a JSON Schema. Set it to false for providers that reject one. @default true */
  readonly responseSchema?: boolean | undefined;
  /** Text for the user when the model gives no answer. */
  readonly fallback?: Fallback | undefined;
  /** Receives errors of the model and of host functions, with their cause, for the operator's log. */
  readonly onError?: ((error: ToolError) => void) | undefined;
  /** Cancels the request: the model's stream is closed and a running tool is killed. */
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
  signal: AbortSignalSchema.optional(),
});

/** The options of one request, merged and with all defaults set. */
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

/** @throws {ToolError} PARAM_INVALID, naming the path of each invalid option */
export function parseToolsRouterOptions(options: unknown): ToolsRouterOptions {
  const parsed = parseOptions(OptionsSchema, options, "options") as ToolsRouterOptions;
  if (parsed.context !== undefined) checkValues(parsed.context, "options.");
  return parsed;
}

/** Merges the options of one request into the agent's. @throws {ToolError} PARAM_INVALID, naming the path of each invalid option */
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
    maxTools,
    routingRetries,
    toolRetries,
    backoffMs,
    streamTools,
    answer,
    responseSchema,
    model: requireModel(merged.model),
    callRouter,
    context: { ...context, arguments: handling },
  };
}
