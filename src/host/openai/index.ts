// Entry point of "glovebox/openai": tools, messages and answers of OpenAI's two APIs, and models that use them.
/// <reference types="node" preserve="true" />
export type { Model, ModelEvent, ModelRequest, ModelToolCall } from "../agent/model.ts";
export { type Answer, type ReadOptions, readAnswer, readAnswerStream } from "./answer.ts";
export { type ChatMessage, toChatMessages, toToolMessage } from "./chat-messages.ts";
export { type OpenAIModelOptions, type OpenAIResponsesOptions, openaiChat, openaiResponses } from "./models.ts";
export type { OutputLimits } from "./output.ts";
export { type ResponsesInputItem, toCallOutput, toResponsesInput } from "./responses-input.ts";
export { STRICT_LIMITS, type StrictSchema, toStrictSchema } from "./strict-schema.ts";
export { ToolNames, type WireName } from "./tool-names.ts";
export {
  type ChatTool,
  type OpenAIApi,
  type OpenAIToolNote,
  type OpenAITools,
  type ResponsesTool,
  type ToOpenAIToolsOptions,
  toOpenAITools,
} from "./tools.ts";
export { ANSWER_LIMITS, ModelResponseError } from "./wire.ts";
