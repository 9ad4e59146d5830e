// Converts a conversation to the input of a Responses API request. The whole conversation is sent, because the provider stores nothing.
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type { AssistantPart, Message, ModelToolCall } from "../agent/model.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { checkCall, checkResult, type HistoryTurn, NO_RESULT, replayedArguments, toTurns } from "./history.ts";
import { type OutputLimits, type OutputPart, parseOutputLimits, toOutputParts, toUserParts } from "./output.ts";
import { RESPONSES_PROVIDER } from "./responses-answer.ts";
import { ToolNames } from "./tool-names.ts";
import { checkOpenAITools, type OpenAITools } from "./tools.ts";
import { type Json, list, text } from "./wire.ts";

/** An item of `input`, assignable to the type of OpenAI's package. */
export type ResponsesInputItem = { readonly type?: string; readonly [field: string]: unknown };

type InputContent =
  | { readonly type: "input_text"; readonly text: string }
  | { readonly type: "input_image"; readonly image_url: string; readonly detail: "auto" }
  | { readonly type: "input_file"; readonly file_data: string; readonly filename: string };

function toContent(part: OutputPart): InputContent {
  switch (part.type) {
    case "text":
      return { type: "input_text", text: part.text };
    case "image":
      return { type: "input_image", image_url: part.url, detail: "auto" };
    case "file":
      return { type: "input_file", file_data: part.data, filename: part.filename };
  }
}

/** Returns plain text if there is nothing else, because every server accepts it. */
function toOutput(parts: readonly OutputPart[]): string | InputContent[] {
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? only.text : parts.map(toContent);
}

/**
 * Converts the answer to a call to a `function_call_output` or `custom_tool_call_output`. A missing result is reported in the output.
 * @throws {ToolError} PARAM_INVALID for a call without an id, a value that is not a ToolResult, or invalid limits
 */
export function toCallOutput(
  call: Pick<ModelToolCall, "id" | "kind">,
  result: ToolResult | undefined,
  limits?: OutputLimits,
): ResponsesInputItem {
  checkCall(call);
  checkResult(result);
  const output = result === undefined ? NO_RESULT : toOutput(toOutputParts(result, limits));
  const type = call.kind === "custom" ? "custom_tool_call_output" : "function_call_output";
  return { type, call_id: call.id, output };
}

function toCallItem(call: ModelToolCall, names: ToolNames): ResponsesInputItem {
  const wireName = names.wireNameOf(call.toolName);
  if (call.kind === "custom") {
    return { type: "custom_tool_call", call_id: call.id, ...wireName, input: call.argumentsText };
  }
  return { type: "function_call", call_id: call.id, ...wireName, arguments: replayedArguments(call) };
}

/** Returns whether a provider item needs no further answer, or has one. A provider rejects a request with an unanswered item. */
const isAnswered = (item: Json, items: readonly Json[]): boolean => {
  if (item.type === "mcp_approval_request") return false;
  const callId = text(item.call_id);
  if (callId === undefined) return true;
  return items.filter((other) => other.call_id === callId).length > 1;
};

/** Returns whether an item can be replayed: reasoning needs its encrypted or open text, because the provider does not store it by id. */
const canReplay = (item: Json): boolean =>
  item.type !== "reasoning" || (text(item.encrypted_content) ?? "") !== "" || list(item.content).length > 0;

function toProviderItem(part: AssistantPart): Json | undefined {
  if (part.type !== "provider" || part.provider !== RESPONSES_PROVIDER || !isJsonObject(part.item)) return undefined;
  return part.item;
}

function toAssistantItems(
  turn: Extract<HistoryTurn, { role: "assistant" }>,
  names: ToolNames,
): readonly ResponsesInputItem[] {
  const providerItems = turn.content.flatMap((part): Json[] => {
    const item = toProviderItem(part);
    return item === undefined ? [] : [item];
  });
  const items = turn.content.flatMap((part): ResponsesInputItem[] => {
    if (part.type === "text") return [{ role: "assistant", content: part.text }];
    if (part.type === "tool-call") return [toCallItem(part.call, names)];
    const item = toProviderItem(part);
    return item !== undefined && canReplay(item) && isAnswered(item, providerItems) ? [item] : [];
  });
  // The provider rejects reasoning without the output that follows it; that answer was cut off.
  while (items.at(-1)?.type === "reasoning") items.pop();
  return items;
}

/**
 * Converts a conversation to the Responses API's `input`.
 * @param tools tools of the request, whose aliases are used for the calls
 * @throws {ToolError} PARAM_INVALID for invalid messages, tools or limits, naming the path
 * @example
 * ```ts
 * import { toResponsesInput } from "glovebox/openai";
 *
 * const input = toResponsesInput([{ role: "user", content: "How much is 19 + 23?" }]);
 * console.log(JSON.stringify(input)); // [{"role":"user","content":"How much is 19 + 23?"}]
 * ```
 */
export function toResponsesInput(
  messages: readonly Message[],
  tools?: OpenAITools,
  limits?: OutputLimits,
): ResponsesInputItem[] {
  checkOpenAITools(tools, "tools");
  parseOutputLimits(limits);
  const names = tools?.names ?? new ToolNames([]);
  return toTurns(messages).flatMap((turn): readonly ResponsesInputItem[] => {
    if (turn.role === "assistant") {
      const outputs = turn.answers.map(({ call, result }) => toCallOutput(call, result, limits));
      return [...toAssistantItems(turn, names), ...outputs];
    }
    const { role, content } = turn;
    return [{ role, content: typeof content === "string" ? content : toUserParts(content, limits).map(toContent) }];
  });
}
