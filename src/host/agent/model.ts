// What passes between an agent loop and a model, whoever's model it is: messages, the calls a model makes, what it says as it says it.
// Providers' own words are converted at the edges (../openai/).
import type { ContentPart } from "../../sandbox/contract/content.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { ToolResult } from "../contract/tool-call.ts";

/** A call as a model made it: read, not believed. What could not be read of it has a `problem`, and is answered with that. */
export interface ModelToolCall {
  /** The provider's id for the call (`call_id`, `tool_call_id`); its result is correlated by it. */
  readonly id: string;
  /** By the registry's name: aliases have been undone. */
  readonly toolName: string;
  /** As the model wrote them; JSON for a function, free text for a custom tool. */
  readonly argumentsText: string;
  /** Parsed; absent where they could not be. */
  readonly arguments?: unknown;
  /** Why it cannot be run as it is, in words that the model can mend it by. */
  readonly problem?: string;
  readonly kind: "function" | "custom";
  /** The provider's id of the item in its stream or output, where it has one. */
  readonly itemId?: string;
}

/** A part of what a model said. `provider` is an item of the provider's own (reasoning, a search) that is replayed to it as it came. */
export type AssistantPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool-call"; readonly call: ModelToolCall }
  | { readonly type: "provider"; readonly provider: string; readonly item: unknown };

export type Message =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user"; readonly content: string | readonly ContentPart[] }
  | { readonly role: "assistant"; readonly content: readonly AssistantPart[] }
  /** The answer to one call. No call of an assistant message is ever without one. */
  | { readonly role: "tool"; readonly callId: string; readonly toolName: string; readonly result: ToolResult };

export type AssistantMessage = Extract<Message, { role: "assistant" }>;

export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  /** `auto` unless stated. */
  readonly toolChoice?: "auto" | "none" | "required" | { readonly toolName: string };
  /** False where the model must make one call at a time. */
  readonly parallelToolCalls?: boolean;
  /** The answer must be JSON by this schema. */
  readonly responseSchema?: { readonly name: string; readonly schema: { readonly [key: string]: unknown } };
  readonly signal: AbortSignal;
}

export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Why a model stopped. */
export type FinishReason = "stop" | "tool-calls" | "length" | "content-filter" | "other";

/** What a model says, as it says it. A `tool-call` comes as soon as the call is complete; `finish` is the last, exactly once. */
export type ModelEvent =
  | { readonly type: "text-delta"; readonly text: string }
  | { readonly type: "tool-call"; readonly call: ModelToolCall }
  | {
      readonly type: "finish";
      /** The whole of it. */
      readonly message: AssistantMessage;
      readonly reason: FinishReason;
      readonly usage?: ModelUsage;
    };

/**
 * One turn of a model. Ends soon after `request.signal` aborts; throws what the transport throws.
 * `openaiResponses` and `openaiChat` of `glovebox/openai` make one from a client; a function of the host's own is one too.
 */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;
