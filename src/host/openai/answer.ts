// Reads answers of both OpenAI APIs, whole or as a stream.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../sandbox/contract/plain-object.ts";
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type { AssistantMessage, FinishReason, ModelEvent, ModelToolCall, ModelUsage } from "../agent/model.ts";
import { parseOptions } from "../config/option-errors.ts";
import { ignoreOutcome, isThenable } from "../util/host-callback.ts";
import { CallReader } from "./calls.ts";
import { ChatAnswer } from "./chat-answer.ts";
import { ResponsesAnswer } from "./responses-answer.ts";
import { checkOpenAITools, type OpenAIApi, type OpenAITools } from "./tools.ts";

/** Options for reading an answer. */
export interface ReadOptions {
  /**
   * Returns an id for a call that has none: 1 to 256 characters, different each time. If the function throws or returns anything else, the
   * call gets a random id.
   */
  readonly createId?: (() => string) | undefined;
}

const createId = z.custom<() => string>((value) => typeof value === "function", "Expected a function").optional();
const ReadOptionsSchema = strictObject({ createId });
const StreamOptionsSchema = strictObject({
  api: z.enum(["responses", "chat"]),
  tools: z.custom<OpenAITools>().optional(),
  createId,
});

/** A whole answer of a model. */
export interface Answer {
  readonly message: AssistantMessage;
  /** The calls of the message. Each needs an answer, even one with a `problem`. */
  readonly calls: readonly ModelToolCall[];
  readonly reason: FinishReason;
  readonly usage?: ModelUsage;
}

const createAnswer = (api: OpenAIApi, tools: OpenAITools | undefined, { createId }: ReadOptions) => {
  const reader = new CallReader(tools, createId);
  return api === "chat" ? new ChatAnswer(reader) : new ResponsesAnswer(reader);
};

/**
 * Reads a whole response of either API.
 * @param tools tools of the request, which map aliases back to names
 * @throws {ModelResponseError} for a failed response, or one beyond the limits
 * @throws {ToolError} PARAM_INVALID for invalid tools or options, or if the response is not an object, or is a promise
 * @example
 * ```typescript
 * import { createGlovebox } from "glovebox";
 * import { readAnswer, toOpenAITools } from "glovebox/openai";
 *
 * await using glovebox = await createGlovebox({ tools: { builtinTools: true } });
 * const tools = toOpenAITools(await glovebox.listTools(), { api: "responses" });
 * // The response of `client.responses.create({ tools: tools.tools, … })` or of any compatible server.
 * declare const response: unknown;
 * const { calls } = readAnswer(response, tools);
 * ```
 */
export function readAnswer(response: unknown, tools?: OpenAITools, options: ReadOptions = {}): Answer {
  if (isThenable(response)) {
    ignoreOutcome(() => response);
    throw new ToolError("PARAM_INVALID", "response: Expected a response, got a promise. Await it first");
  }
  if (!isJsonObject(response))
    throw new ToolError("PARAM_INVALID", `response: Expected a response, got ${describeKind(response)}`);
  checkOpenAITools(tools, "tools");
  parseOptions(ReadOptionsSchema, options, "options");
  const api = "choices" in response ? "chat" : (tools?.api ?? "responses");
  const answer = createAnswer(api, tools, options);
  answer.readWhole(response);
  for (const event of answer.finish()) {
    if (event.type !== "finish") continue;
    const { type: _, ...read } = event;
    return { ...read, calls: read.message.content.flatMap((part) => (part.type === "tool-call" ? [part.call] : [])) };
  }
  throw new Error("The answer has no finish event");
}

/**
 * Reads a stream of either API. A call is yielded as soon as it is complete; the last event is `finish`. If the stream ends early,
 * incomplete calls have a `problem`.
 * @throws {ModelResponseError} if the answer failed; also throws the stream's own errors
 * @throws {ToolError} PARAM_INVALID, synchronously, for invalid options or a stream that is not async iterable
 * @example
 * ```typescript
 * import { readAnswerStream } from "glovebox/openai";
 * import OpenAI from "openai";
 *
 * const stream = await new OpenAI().responses.create({ model: "gpt-5.1", input: "Hello", stream: true });
 * for await (const event of readAnswerStream(stream, { api: "responses" })) console.log(event.type);
 * ```
 */
export function readAnswerStream(
  stream: AsyncIterable<unknown>,
  options: { readonly api: OpenAIApi; readonly tools?: OpenAITools | undefined } & ReadOptions,
): AsyncGenerator<ModelEvent, void> {
  const parsed = parseOptions(StreamOptionsSchema, options, "options");
  checkOpenAITools(parsed.tools, "options.tools");
  if (typeof stream !== "object" || stream === null || !(Symbol.asyncIterator in stream)) {
    throw new ToolError("PARAM_INVALID", `stream: Expected an async iterable, got ${describeKind(stream)}`);
  }
  return readEvents(stream, parsed);
}

async function* readEvents(
  stream: AsyncIterable<unknown>,
  { api, tools, ...options }: z.output<typeof StreamOptionsSchema>,
): AsyncGenerator<ModelEvent, void> {
  const answer = createAnswer(api, tools, options);
  let isFinished = false;
  for await (const event of stream) {
    if (isFinished) continue;
    yield* answer.push(event);
    // Chat Completions sends the usage after the finish reason.
    if (api === "chat" || !answer.isOver) continue;
    isFinished = true;
    yield* answer.finish();
  }
  if (!isFinished) yield* answer.finish();
}
