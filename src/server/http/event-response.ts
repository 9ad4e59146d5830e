// Responses that are streams of server-sent events. An error after the beginning of a stream can have no status any more: it is the last event.
import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import type { AppEnv, ServerDependencies } from "./context.ts";
import { answerFailure } from "./problem.ts";

/**
 * Returns a response whose events a function sends. If it throws, the last event is `error`, with the status and the body that a response would
 * have.
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
      const { status, body } = answerFailure(thrown, requestId, { isRead: c.req.method === "GET", onError });
      await stream.writeSSE({ event: "error", data: JSON.stringify({ status, ...body }) });
    }
  });
}
