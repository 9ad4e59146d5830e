// Converts a conversation to Chat Completions messages.
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type { Message, ModelToolCall } from "../agent/model.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { CHAT_PROVIDER } from "./chat-answer.ts";
import { checkCall, checkResult, type HistoryTurn, NO_RESULT, replayedArguments, toTurns } from "./history.ts";
import {
  type OutputLimits,
  type OutputPart,
  parseOutputLimits,
  toOutputParts,
  toTextOnly,
  toUserParts,
} from "./output.ts";
import { ToolNames } from "./tool-names.ts";
import { checkOpenAITools, type OpenAITools } from "./tools.ts";
import type { Json } from "./wire.ts";

/** A message, assignable to the type of OpenAI's package. */
export type ChatMessage = { readonly role: string; readonly [field: string]: unknown };

function toContent(part: OutputPart): Json {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "image":
      return { type: "image_url", image_url: { url: part.url } };
    case "file":
      return { type: "file", file: { file_data: part.data, filename: part.filename } };
  }
}

/**
 * Converts the answer to a call to a `tool` message, which contains only text. Images and files are replaced by a note: in a user message,
 * they would carry a user's authority.
 * @throws {ToolError} PARAM_INVALID for a call without an id, a value that is not a ToolResult, or invalid limits
 */
export function toToolMessage(
  call: Pick<ModelToolCall, "id">,
  result: ToolResult | undefined,
  limits?: OutputLimits,
): ChatMessage {
  checkCall(call);
  checkResult(result);
  const content = result === undefined ? NO_RESULT : toTextOnly(toOutputParts(result, limits));
  return { role: "tool", tool_call_id: call.id, content };
}

function toCall(call: ModelToolCall, names: ToolNames): Json {
  const { name } = names.wireNameOf(call.toolName);
  if (call.kind === "custom") return { id: call.id, type: "custom", custom: { name, input: call.argumentsText } };
  return { id: call.id, type: "function", function: { name, arguments: replayedArguments(call) } };
}

type AssistantTurn = Extract<HistoryTurn, { role: "assistant" }>;

/** Converts the calls of a turn. A provider's additions to a call are stored in the part after it. */
function toCalls({ content }: AssistantTurn, names: ToolNames): readonly Json[] {
  return content.flatMap((part, at) => {
    if (part.type !== "tool-call") return [];
    const next = content[at + 1];
    const own =
      next?.type === "provider" && next.provider === CHAT_PROVIDER && isJsonObject(next.item) ? next.item : {};
    const extra = own.type === "extra_content" ? { extra_content: own.extra_content } : {};
    return [{ ...toCall(part.call, names), ...extra }];
  });
}

/** Returns the reasoning to replay: providers accept it only until the next user message. */
function toReasoning({ content, isPast }: AssistantTurn): Json {
  for (const part of content) {
    if (isPast || part.type !== "provider" || part.provider !== CHAT_PROVIDER || !isJsonObject(part.item)) continue;
    const { type, reasoning_content, reasoning, reasoning_details } = part.item;
    if (type !== "reasoning") continue;
    return Object.fromEntries(
      Object.entries({ reasoning_content, reasoning, reasoning_details }).filter(([, value]) => value !== undefined),
    );
  }
  return {};
}

function toAssistantMessages(turn: AssistantTurn, names: ToolNames, limits?: OutputLimits): readonly ChatMessage[] {
  const content = turn.content.map((part) => (part.type === "text" ? part.text : "")).join("");
  const calls = toCalls(turn, names);
  if (content === "" && calls.length === 0) return [];
  const message: ChatMessage = {
    role: "assistant",
    content: content === "" ? null : content,
    ...toReasoning(turn),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return [message, ...turn.answers.map(({ call, result }) => toToolMessage(call, result, limits))];
}

/**
 * Converts a conversation to Chat Completions messages.
 * @param tools tools of the request, whose aliases are used for the calls
 * @throws {ToolError} PARAM_INVALID for invalid messages, tools or limits, naming the path
 * @example
 * ```ts
 * import { toChatMessages } from "glovebox/openai";
 *
 * console.log(JSON.stringify(toChatMessages([{ role: "user", content: "Hello" }]))); // [{"role":"user","content":"Hello"}]
 * ```
 */
export function toChatMessages(
  messages: readonly Message[],
  tools?: OpenAITools,
  limits?: OutputLimits,
): ChatMessage[] {
  checkOpenAITools(tools, "tools");
  parseOutputLimits(limits);
  const names = tools?.names ?? new ToolNames([]);
  return toTurns(messages).flatMap((turn): readonly ChatMessage[] => {
    if (turn.role === "assistant") return toAssistantMessages(turn, names, limits);
    const { role, content } = turn;
    return [{ role, content: typeof content === "string" ? content : toUserParts(content, limits).map(toContent) }];
  });
}
