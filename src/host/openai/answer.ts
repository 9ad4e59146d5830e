// Answers of either API, whole or as a stream, as what a model said.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { AssistantMessage, FinishReason, ModelEvent, ModelToolCall, ModelUsage } from "../agent/model.ts";
import { parseOptions } from "../config/option-errors.ts";
import { ignoreOutcome, isThenable } from "../util/host-callback.ts";
import { CallReader } from "./calls.ts";
import { ChatAnswer } from "./chat-answer.ts";
import { ResponsesAnswer } from "./responses-answer.ts";
import { checkOpenAITools, type OpenAIApi, type OpenAITools } from "./tools.ts";
import { isRecord } from "./wire.ts";

export interface ReadOptions {
  /**
   * Returns an id for a call that its provider gave none: 1 to 256 characters, another one each time. A call gets a random id where the
   * function throws or returns anything else.
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

export interface Answer {
  readonly message: AssistantMessage;
  /** Those in the message. Each needs an output, also one with a `problem`. */
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
 * @param tools what the request was made with: names are undone by it
 * @throws {ModelResponseError} where the response is a failed one, or larger than any answer
 * @throws {ToolError} PARAM_INVALID for tools or options that are wrong, or a promise for a response
 */
export function readAnswer(response: unknown, tools?: OpenAITools, options: ReadOptions = {}): Answer {
  if (isThenable(response)) {
    ignoreOutcome(() => response);
    throw new ToolError("PARAM_INVALID", "response: Expected a response, got a promise; await it");
  }
  checkOpenAITools(tools, "tools");
  parseOptions(ReadOptionsSchema, options, "options");
  const api = isRecord(response) && "choices" in response ? "chat" : (tools?.api ?? "responses");
  const answer = createAnswer(api, tools, options);
  answer.readWhole(response);
  for (const event of answer.finish()) {
    if (event.type !== "finish") continue;
    const { type: _, ...read } = event;
    return { ...read, calls: read.message.content.flatMap((part) => (part.type === "tool-call" ? [part.call] : [])) };
  }
  throw new Error("An answer has an end");
}

/**
 * Reads a stream of either API; a call is given as soon as it is complete, the last event is `finish`. A stream that ends too soon has its
 * end too: what was not complete is a call with a `problem` then.
 * @throws what the stream throws, or {ModelResponseError} where the answer failed
 * @throws {ToolError} PARAM_INVALID, at once, for options that are wrong, or a stream that cannot be iterated
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
    // The usage of a chat comes behind its end.
    if (api === "chat" || !answer.isOver) continue;
    isFinished = true;
    yield* answer.finish();
  }
  if (!isFinished) yield* answer.finish();
}
