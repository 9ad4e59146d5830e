// Answers of either API, whole or as a stream, as what a model said.
import type { AssistantMessage, FinishReason, ModelEvent, ModelToolCall, ModelUsage } from "../agent/model.ts";
import { CallReader } from "./calls.ts";
import { ChatAnswer } from "./chat-answer.ts";
import { ResponsesAnswer } from "./responses-answer.ts";
import type { OpenAIApi, OpenAITools } from "./tools.ts";
import { isRecord } from "./wire.ts";

export interface ReadOptions {
  /** For calls that a provider gives no id: must give another one each time. */
  readonly createId?: (() => string) | undefined;
}

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
 */
export function readAnswer(response: unknown, tools?: OpenAITools, options: ReadOptions = {}): Answer {
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
 */
export async function* readAnswerStream(
  stream: AsyncIterable<unknown>,
  { api, tools, ...options }: { readonly api: OpenAIApi; readonly tools?: OpenAITools | undefined } & ReadOptions,
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
