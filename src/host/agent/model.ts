// Provider-independent types between an agent and a model: messages, tool calls and model events. `../openai/` converts OpenAI's formats to
// and from them.
import type { ContentPart } from "../../sandbox/contract/content.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { ToolResult } from "../contract/tool-call.ts";

/** A call as the model made it, untrusted. A call that could not be read has a `problem`, which becomes its answer. */
export interface ModelToolCall {
  /** The provider's id of the call (`call_id`, `tool_call_id`), which links the result to it. */
  readonly id: string;
  /** The tool's registered name, with provider aliases resolved. */
  readonly toolName: string;
  /** The arguments as the model wrote them: JSON for a function, free text for a custom tool. */
  readonly argumentsText: string;
  /** The parsed arguments; absent if they could not be parsed. */
  readonly arguments?: unknown;
  /** Why the call cannot run, worded so that the model can correct it. */
  readonly problem?: string;
  readonly kind: "function" | "custom";
  /** The provider's id of the item in its stream or output, if it has one. */
  readonly itemId?: string;
}

/** A part of an assistant message. `provider` is a provider-specific item (reasoning, a search) that is sent back unchanged. */
export type AssistantPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool-call"; readonly call: ModelToolCall }
  | { readonly type: "provider"; readonly provider: string; readonly item: unknown };

/** A message of a conversation, in the same form for every model. Tool results are the router's own. */
export type Message =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user"; readonly content: string | readonly ContentPart[] }
  | { readonly role: "assistant"; readonly content: readonly AssistantPart[] }
  /** The answer to one call. Every call of an assistant message must have one. */
  | { readonly role: "tool"; readonly callId: string; readonly toolName: string; readonly result: ToolResult };

/** A turn of the model: text, calls, and parts that only its provider understands. */
export type AssistantMessage = Extract<Message, { role: "assistant" }>;

/** What a {@link Model} receives for one turn. */
export interface ModelRequest {
  /** The conversation. */
  readonly messages: readonly Message[];
  /** Tools that the model may call. */
  readonly tools: readonly ToolDefinition[];
  /** @default "auto" */
  readonly toolChoice?: "auto" | "none" | "required" | { readonly toolName: string };
  /** If false, the model makes at most one call in this turn. */
  readonly parallelToolCalls?: boolean;
  /** JSON Schema that the answer must match. */
  readonly responseSchema?: { readonly name: string; readonly schema: { readonly [key: string]: unknown } };
  /** Aborts when the run ends. The model must stop then. */
  readonly signal: AbortSignal;
}

/** Tokens that a model reports for one turn, or the sum of several turns. */
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Why the model ended its turn. */
export type FinishReason = "stop" | "tool-calls" | "length" | "content-filter" | "other";

/** An event of a model's stream. A `tool-call` is sent as soon as the call is complete; `finish` is sent once, as the last event. */
export type ModelEvent =
  | { readonly type: "text-delta"; readonly text: string }
  | { readonly type: "tool-call"; readonly call: ModelToolCall }
  | {
      readonly type: "finish";
      /** The complete message of the turn. */
      readonly message: AssistantMessage;
      readonly reason: FinishReason;
      readonly usage?: ModelUsage;
    };

/**
 * Runs one turn of a model. Ends soon after `request.signal` aborts, and throws the transport's errors.
 * `openaiResponses` and `openaiChat` of `glovebox/openai` create a model from a client; a host can also pass its own function.
 */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;
