// Recognizes how a server has answered the HTTP request that carries a JSON-RPC request, which the SDK's transport does not report.
import { AsyncLocalStorage } from "node:async_hooks";
import { type JSONRPCMessage, ProtocolErrorCode } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../../../sandbox/contract/value-kind.ts";
import { isSmallJson, parseSmallJson } from "../../../json/parse-json.ts";
import { statusOf, textOf } from "./failed-request.ts";

/** A request that is being sent over HTTP. */
export interface SentRequest {
  /** State of an answer with one message in the body, and not with a stream. */
  answer: "none" | "begun" | "ended";
  /** Time in ms after which the server, which is overloaded, wants the request again. */
  retryAfterMs?: number | undefined;
}

/** The request that is sent in the current async context. */
export const sentRequest: AsyncLocalStorage<SentRequest> = new AsyncLocalStorage();

const LIMITS = { bytes: 64 * 1024, depth: 32, values: 10_000 } as const;
const CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
/**
 * Errors about a request itself. With any other code, such as -32000, a 400 can mean that the server no longer knows the session, and that it
 * has not processed the request.
 */
const ANSWERS: ReadonlySet<unknown> = new Set([
  ProtocolErrorCode.MethodNotFound,
  ProtocolErrorCode.InvalidParams,
  ProtocolErrorCode.InternalError,
]);

/**
 * Returns the response to a request in the body of a 400, which servers of the 2025 revisions also send; otherwise undefined. Without it, the
 * failure would look like that of an expired session, and the request would be sent again.
 * @param id id of the request
 */
export function answerOf(thrown: unknown, id: string): JSONRPCMessage | undefined {
  const text = statusOf(thrown) === 400 ? textOf(thrown) : undefined;
  if (text === undefined || !isSmallJson(text)) return undefined;
  try {
    const message: unknown = parseSmallJson(text, LIMITS, CODES, "The response");
    if (!isJsonObject(message) || !isJsonObject(message.error)) return undefined;
    const isAnswer = message.jsonrpc === "2.0" && String(message.id) === id && ANSWERS.has(message.error.code);
    return isAnswer ? (message as unknown as JSONRPCMessage) : undefined;
  } catch {
    return undefined;
  }
}
