// Creates models from an OpenAI client. Each turn is one request that contains the whole conversation.
import type OpenAI from "openai";
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { Model, ModelEvent, ModelRequest } from "../agent/model.ts";
import { parseOptions } from "../config/option-errors.ts";
import { untilAborted } from "../util/with-abort.ts";
import { readAnswer, readAnswerStream } from "./answer.ts";
import { toChatMessages } from "./chat-messages.ts";
import { type OutputLimits, OutputLimitsSchema } from "./output.ts";
import { toResponsesInput } from "./responses-input.ts";
import { toStrictSchema } from "./strict-schema.ts";
import { toWireName } from "./tool-names.ts";
import {
  type OpenAIApi,
  OpenAIToolOptionsSchema,
  type OpenAITools,
  type ToOpenAIToolsOptions,
  toOpenAITools,
} from "./tools.ts";

type ToolOptions<Api extends OpenAIApi> = Omit<ToOpenAIToolsOptions<Api>, "api">;

/** Options of {@link openaiChat}, and of {@link openaiResponses} in part. */
export interface OpenAIModelOptions<Api extends OpenAIApi = OpenAIApi> {
  /** The provider's name of the model. */
  readonly model: string;
  /** Whether to request a stream instead of a whole answer. @default true */
  readonly stream?: boolean | undefined;
  /** How the tools of a request are converted. */
  readonly tools?: ToolOptions<Api> | undefined;
  /** Limits of the tool results and user content that are sent. */
  readonly output?: OutputLimits | undefined;
  /**
   * Further fields of the request (`temperature`, `reasoning`, `max_output_tokens`). The model, the conversation, the tools and the
   * response format take precedence over them. An undefined field removes a default such as `store`.
   */
  readonly body?: { readonly [field: string]: unknown } | undefined;
}

/** Options of {@link openaiResponses}. */
export interface OpenAIResponsesOptions extends OpenAIModelOptions<"responses"> {
  /**
   * Whether reasoning is requested in encrypted form, and replayed. Models without reasoning reject such a request.
   * @default true, except for models whose name begins with gpt-3, gpt-4 or chatgpt
   */
  readonly encryptedReasoning?: boolean | undefined;
}

const modelShape = {
  model: z.string().min(1),
  stream: z.boolean().default(true),
  tools: OpenAIToolOptionsSchema.prefault({}),
  output: OutputLimitsSchema.optional(),
  body: z.custom<OpenAIModelOptions["body"]>(isPlainObject, "Expected a plain object").optional(),
};
const ChatOptionsSchema = strictObject(modelShape);
const ResponsesOptionsSchema = strictObject({ ...modelShape, encryptedReasoning: z.boolean().optional() });

/** @throws {ToolError} PARAM_INVALID unless the client has this method */
function checkClient(client: unknown, ...path: readonly string[]): void {
  let part = client;
  for (const key of path) {
    part = typeof part === "object" && part !== null ? (part as { readonly [key: string]: unknown })[key] : undefined;
  }
  if (typeof part === "function") return;
  throw new ToolError(
    "PARAM_INVALID",
    `client: Expected an OpenAI client with ${path.join(".")}(), got ${describeKind(client)}`,
  );
}

const MODELS_WITHOUT_REASONING = /^(gpt-3|gpt-4|chatgpt)/;

interface Format {
  readonly name: string;
  readonly schema: { readonly [key: string]: unknown };
  readonly strict: boolean;
}

/** Returns the response format. It is strict only if that adds no nullable properties, because the caller of the schema expects none. */
function toFormat({ responseSchema }: ModelRequest): Format | undefined {
  if (responseSchema === undefined) return undefined;
  const { name, schema } = responseSchema;
  const strict = toStrictSchema(schema as Parameters<typeof toStrictSchema>[0]);
  const isStrict = strict.strict && !strict.hasNullables;
  return { name: toWireName(name), schema: isStrict ? strict.schema : schema, strict: isStrict };
}

function toToolFields(
  { toolChoice, parallelToolCalls }: ModelRequest,
  { tools, names }: OpenAITools,
  toNamed: (name: string, isCustom: boolean) => unknown,
  isCustom: (toolName: string) => boolean,
): { readonly [field: string]: unknown } {
  if (tools.length === 0) return {};
  const choice =
    typeof toolChoice === "object"
      ? toNamed(names.wireNameOf(toolChoice.toolName).name, isCustom(toolChoice.toolName))
      : toolChoice;
  return {
    tools,
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...(parallelToolCalls === undefined ? {} : { parallel_tool_calls: parallelToolCalls }),
  };
}

/** Reads the answer to a request, as a stream or as a whole. */
async function* readEvents(
  answer: unknown,
  api: OpenAIApi,
  tools: OpenAITools,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent, void> {
  if (typeof answer === "object" && answer !== null && Symbol.asyncIterator in answer) {
    for await (const event of readAnswerStream(answer as AsyncIterable<unknown>, { api, tools })) {
      // The package ends a stream silently when its signal aborts; the answer is incomplete in that case.
      if (event.type === "finish") signal.throwIfAborted();
      yield event;
    }
    return;
  }
  const { calls, ...whole } = readAnswer(answer, tools);
  for (const part of whole.message.content) {
    if (part.type === "text") yield { type: "text-delta", text: part.text };
  }
  for (const call of calls) yield { type: "tool-call", call };
  yield { type: "finish", ...whole };
}

/**
 * Creates a model for the Responses API. Requests are stateless (`store: false`); reasoning is replayed in its encrypted form.
 * The model throws the client's errors, `ModelResponseError` for a failed answer, and the signal's reason after an abort.
 * @throws {ToolError} PARAM_INVALID for a client without `responses.create`, or an invalid option, naming its path
 * @example
 * ```ts
 * import { AgentLoop } from "glovebox/agent";
 * import { openaiResponses } from "glovebox/openai";
 * import OpenAI from "openai";
 *
 * const client = new OpenAI();
 * const loop = new AgentLoop({ model: openaiResponses(client, { model: "gpt-5.1" }) });
 * ```
 */
export function openaiResponses(client: Pick<OpenAI, "responses">, options: OpenAIResponsesOptions): Model {
  checkClient(client, "responses", "create");
  const parsed = parseOptions(ResponsesOptionsSchema, options, "options");
  const { model, stream, tools: toolOptions, output, body } = parsed;
  const { encryptedReasoning = !MODELS_WITHOUT_REASONING.test(model) } = parsed;
  return async function* (request) {
    const { signal } = request;
    const tools = toOpenAITools(request.tools, { ...toolOptions, api: "responses" });
    const format = toFormat(request);
    const toNamed = (name: string, isCustom: boolean) => ({ type: isCustom ? "custom" : "function", name });
    const whole = {
      ...(encryptedReasoning ? { include: ["reasoning.encrypted_content"] } : {}),
      store: false,
      ...body,
      model,
      stream,
      input: toResponsesInput(request.messages, tools, output),
      ...toToolFields(request, tools, toNamed, (name) => toolOptions.custom.includes(name)),
      ...(format === undefined ? {} : { text: { format: { type: "json_schema", ...format } } }),
    };
    const sent = client.responses.create(whole as Parameters<typeof client.responses.create>[0], { signal });
    // A client that ignores the signal must not delay the end of the run.
    const answer = await untilAborted(Promise.resolve<unknown>(sent), signal);
    yield* readEvents(answer, "responses", tools, signal);
  };
}

/**
 * Creates a model for Chat Completions, of OpenAI or a compatible server (`baseURL`). Throws like {@link openaiResponses}.
 * @example
 * ```ts
 * import { AgentLoop } from "glovebox/agent";
 * import { openaiChat } from "glovebox/openai";
 * import OpenAI from "openai";
 *
 * const client = new OpenAI({ baseURL: "http://127.0.0.1:11434/v1", apiKey: "none" });
 * const loop = new AgentLoop({ model: openaiChat(client, { model: "llama3.3" }) });
 * ```
 */
export function openaiChat(client: Pick<OpenAI, "chat">, options: OpenAIModelOptions<"chat">): Model {
  checkClient(client, "chat", "completions", "create");
  const { model, stream, tools: toolOptions, output, body } = parseOptions(ChatOptionsSchema, options, "options");
  return async function* (request) {
    const { signal } = request;
    const tools = toOpenAITools(request.tools, { ...toolOptions, api: "chat" });
    const format = toFormat(request);
    const toNamed = (name: string, isCustom: boolean) =>
      isCustom ? { type: "custom", custom: { name } } : { type: "function", function: { name } };
    const whole = {
      ...(stream ? { stream_options: { include_usage: true } } : {}),
      ...body,
      model,
      stream,
      messages: toChatMessages(request.messages, tools, output),
      ...toToolFields(request, tools, toNamed, (name) => toolOptions.custom.includes(name)),
      ...(format === undefined ? {} : { response_format: { type: "json_schema", json_schema: format } }),
    };
    const { completions } = client.chat;
    const sent = completions.create(whole as unknown as Parameters<typeof completions.create>[0], { signal });
    const answer = await untilAborted(Promise.resolve<unknown>(sent), signal);
    yield* readEvents(answer, "chat", tools, signal);
  };
}
