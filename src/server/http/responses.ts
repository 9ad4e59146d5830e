// Responses of the routes: JSON, texts that are sent while they are made, and streams of server-sent events.
import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AppEnv, ServerDependencies } from "./context.ts";
import { handleFailure } from "./error-response.ts";

/** Responds with a value as JSON. Hono does not check its type: tests compare the responses with the schemas of their routes. */
export const respondWithJson = (c: Context<AppEnv>, body: object, status: ContentfulStatusCode = 200): Response =>
  c.json(body as never, status);

/** Responds with a text that is JSON already. */
export const respondWithText = (c: Context<AppEnv>, text: string, status: ContentfulStatusCode = 200): Response =>
  c.body(text, status, { "content-type": "application/json" });

/** Responds with texts as they are made, such as the lines of an export. An error in the middle breaks the connection off. */
export function respondWithStream(c: Context<AppEnv>, texts: AsyncIterable<string>, contentType: string): Response {
  const bytes = ReadableStream.from(texts).pipeThrough(new TextEncoderStream() as never);
  return c.body(bytes as never, 200, { "content-type": contentType });
}

/**
 * Responds with the events that a function sends. If it throws, the status of the response has been sent already, so the last event is `error`,
 * with the status and the body that a response would have.
 */
export function respondWithEvents(
  c: Context<AppEnv>,
  { onError }: Pick<ServerDependencies, "onError">,
  send: (stream: SSEStreamingApi) => Promise<void>,
): Response {
  return streamSSE(c, async (stream) => {
    try {
      await send(stream);
    } catch (thrown) {
      const requestId = c.get("requestId");
      const { status, body } = handleFailure(thrown, requestId, { isRead: c.req.method === "GET", onError });
      await stream.writeSSE({ event: "error", data: JSON.stringify({ status, ...body }) });
    }
  });
}
