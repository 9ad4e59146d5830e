// Parses one message of an upstream server, for all transports, with limits on size, depth and number of values. A large message is parsed
// over several turns of the event loop.
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { ToolError } from "../../../../sandbox/contract/errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../../../json/parse-json.ts";
import { endsOf, type LongMessage, type MessageEnds } from "./bounded-bytes.ts";
import { replaceUnreadableTools } from "./unreadable-tools.ts";

/** JSON-RPC error code for a response that cannot be read, in the range for implementation-defined errors. */
export const UNREADABLE_CODE = -32_098;
/** Listing the keys of one object took 15 ms for 40,000 keys and 60 ms for 160,000 (measured on Node 26, two cores). */
const MESSAGE_LIMITS = { depth: 256, values: 2_000_000, members: 40_000 } as const;
const MESSAGE_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
const SUBJECT = "The response";
const OPEN_BRACE = 123;
const SPACE = 32;
/** Largest number of white-space bytes before a message. */
const MAX_SPACES = 64;

/** Matches a JSON-RPC id of a reasonable length. */
const ID = String.raw`(\d{1,15}|"[^"\\]{1,200}")`;
const BEGINS_WITH_ID = new RegExp(
  String.raw`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*${ID}\s*,\s*"(?:result|error)"`,
);
const BEGINS_AS_ANSWER = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"/;
const ENDS_WITH_ID = new RegExp(String.raw`,\s*"id"\s*:\s*${ID}\s*\}\s*$`);

/** Returns the id of the request that an unreadable message answers; undefined if its ends do not contain the id. */
export function answeredId({ head, tail }: MessageEnds): string | number | undefined {
  const begin = head.toString("latin1");
  const found =
    BEGINS_WITH_ID.exec(begin) ??
    (BEGINS_AS_ANSWER.test(begin) ? ENDS_WITH_ID.exec(tail.toString("latin1")) : undefined);
  return found?.[1] === undefined ? undefined : (JSON.parse(found[1]) as string | number);
}

/** Returns an error response for the request that an unreadable message answers; undefined if that request is unknown. */
function toUnreadable(ends: MessageEnds, message: string): JSONRPCMessage | undefined {
  const id = answeredId(ends);
  return id === undefined ? undefined : { jsonrpc: "2.0", id, error: { code: UNREADABLE_CODE, message } };
}

const messageOf = (thrown: unknown): string =>
  Error.isError(thrown) ? thrown.message : "The message could not be read";

function toMessage(value: unknown): JSONRPCMessage | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const message = value as { readonly jsonrpc?: unknown; readonly method?: unknown };
  if (message.jsonrpc !== "2.0") return undefined;
  const isMessage = typeof message.method === "string" || "result" in message || "error" in message;
  return isMessage ? (value as JSONRPCMessage) : undefined;
}

/** Whether a parsed message is the response to a request for the list of tools. */
function hasToolList(value: unknown): boolean {
  const { result } = (typeof value === "object" && value !== null ? value : {}) as { readonly result?: unknown };
  return typeof result === "object" && result !== null && "tools" in result && Array.isArray(result.tools);
}

/**
 * Parses one message. A response that cannot be read is replaced by an error response for the same request.
 * @returns undefined if the bytes are not a message; a promise if parsing takes more than one turn of the event loop
 */
export function readMessage(
  bytes: Buffer | LongMessage,
  maxBytes: number,
  signal: AbortSignal,
): JSONRPCMessage | undefined | Promise<JSONRPCMessage | undefined> {
  if ("head" in bytes) return toUnreadable(bytes, `The response is longer than ${maxBytes} bytes`);
  if (bytes.subarray(0, MAX_SPACES).find((byte) => byte > SPACE) !== OPEN_BRACE) return undefined;
  const limits = { ...MESSAGE_LIMITS, bytes: maxBytes };
  const fail = (thrown: unknown): JSONRPCMessage | undefined => toUnreadable(endsOf(bytes), messageOf(thrown));
  /** Tries once more without the tools that may be the reason, if the message is a list of tools. */
  const retry = (thrown: unknown): JSONRPCMessage | undefined | Promise<JSONRPCMessage | undefined> => {
    const isListing = bytes.includes('"tools"') && thrown instanceof ToolError && thrown.code === MESSAGE_CODES.invalid;
    const rest = isListing ? replaceUnreadableTools(bytes, limits.depth) : undefined;
    if (rest === undefined) return fail(thrown);
    return parseLargeText(rest, limits, MESSAGE_CODES, SUBJECT, signal).then(
      (value) => (hasToolList(value) ? toMessage(value) : fail(thrown)),
      () => fail(thrown),
    );
  };
  if (isSmallJson(bytes)) {
    try {
      return toMessage(parseSmallJson(bytes.toString("utf8"), limits, MESSAGE_CODES, SUBJECT));
    } catch (thrown) {
      return retry(thrown);
    }
  }
  return parseLargeText(bytes, limits, MESSAGE_CODES, SUBJECT, signal).then(toMessage, retry);
}
