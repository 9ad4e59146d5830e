// Reads the body of a request to the MCP server: JSON of a bounded size that arrives within a bounded time.
import { type JsonValue, ToolError } from "../../../../sandbox/contract/errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../../../json/parse-json.ts";
import { describeNonJson } from "../../../util/json-media-type.ts";
import { sizeOf } from "../../client/reading/json-size.ts";
import type { Exceeded } from "./caller-quota.ts";
import { INVALID_REQUEST, reject, rejectOverLimit } from "./rejection.ts";

/** Limits of a whole JSON message. The tools' own limits apply to the arguments in it. */
const BOUNDS = { depth: 200, values: 1_250_000 } as const;
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;

/**
 * Maximum number of values of a message, apart from the arguments of a tool. The SDK checks them with zod, at once and
 * several times, and describes each one that is invalid: 100,000 of them block the event loop for a second.
 */
const MAX_OTHER_VALUES = 10_000;

/**
 * Maximum size of a message, in characters and values, apart from the arguments of a tool and what its client answers. The SDK keeps what a
 * client says about itself as long as the session of the client.
 */
const MAX_OTHER_SIZE = 65_536;
/** Maximum length of an id in characters. The SDK keeps the ids of all requests that it is answering. */
const MAX_ID_LENGTH = 256;

export interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  /** Takes bytes from the caller's quota as they arrive. Returns the limit that they exceed. */
  readonly take: (bytes: number) => Exceeded | undefined;
}

/** Returns the body as JSON, undefined for a method without one, or the response that rejects the request. */
export async function readJsonBody(
  request: Request,
  limits: BodyLimits,
): Promise<{ readonly value: unknown } | Response> {
  if (request.method !== "POST") return { value: undefined };
  const coding = request.headers.get("content-encoding");
  const wrongType = describeNonJson(request.headers.get("content-type"));
  if (wrongType !== undefined) return reject(415, wrongType);
  if (coding !== null && coding !== "identity") return reject(415, "Expected no Content-Encoding");
  const text = await readText(request, limits);
  if (typeof text !== "string") return text;
  const bounds = { ...BOUNDS, bytes: limits.maxBytes };
  try {
    // A large body is parsed in slices, so that it does not block the event loop.
    const value = isSmallJson(text)
      ? parseSmallJson(text, bounds, CODES, "The body")
      : await parseLargeText(text, bounds, CODES, "The body", request.signal);
    const problem = describeExcess(value);
    return problem === undefined ? { value } : reject(400, problem, INVALID_REQUEST);
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return reject(400, `Parse error: ${error.message}`, -32_700);
  }
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

interface ToolsCall {
  readonly params: { readonly arguments?: JsonValue } | null;
}

/** Returns which limit a message exceeds. */
function describeExcess(message: JsonValue): string | undefined {
  const id = isObject(message) && "id" in message ? message.id : undefined;
  if (typeof id === "string" && id.length > MAX_ID_LENGTH)
    return `Expected an id of at most ${MAX_ID_LENGTH} characters`;
  if (!hasFewValues(message)) return `Expected at most ${MAX_OTHER_VALUES} JSON values outside params.arguments`;
  return sizeOf(withoutContent(message), MAX_OTHER_SIZE) > MAX_OTHER_SIZE
    ? `Expected a size of at most ${MAX_OTHER_SIZE} outside params.arguments, params.inputResponses and result: the characters, and 16 for each value`
    : undefined;
}

/** Returns a message without the arguments of a tool and without what its client answers. */
function withoutContent(message: JsonValue): unknown {
  if (!isObject(message)) return message;
  const { params } = message as Partial<ToolsCall>;
  const other = isObject(params) ? { ...params, arguments: null, inputResponses: null } : params;
  return { ...message, params: other ?? null, result: null };
}

/** Returns whether a message has few values outside `params.arguments`. */
function hasFewValues(message: JsonValue): boolean {
  const toolArguments = (message as Partial<ToolsCall> | null)?.params?.arguments;
  const open: unknown[] = [message];
  let count = 0;
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    count += 1;
    if (!isObject(value) || value === toolArguments) continue;
    const inner = Array.isArray(value) ? value : Object.values(value);
    if (count + open.length + inner.length > MAX_OTHER_VALUES) return false;
    open.push(...inner);
  }
  return true;
}

const isEncodingError = (thrown: unknown): boolean =>
  Error.isError(thrown) && (thrown as NodeJS.ErrnoException).code === "ERR_ENCODING_INVALID_ENCODED_DATA";

async function readText(request: Request, limits: BodyLimits): Promise<string | Response> {
  if (Number(request.headers.get("content-length")) > limits.maxBytes) return rejectTooLarge(limits);
  if (request.body === null) return "";
  const reader = request.body.getReader();
  const { promise: late, resolve } = Promise.withResolvers<"late">();
  const timer = setTimeout(() => resolve("late"), limits.timeoutMs);
  try {
    return await collect(reader, late, limits);
  } catch (thrown) {
    // Otherwise the client has disconnected, or sent less than its Content-Length.
    const what = isEncodingError(thrown) ? "the body is not valid UTF-8" : "the body ended early";
    return reject(400, `Parse error: ${what}`, -32_700);
  } finally {
    clearTimeout(timer);
    reader.releaseLock();
  }
}

async function collect(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  late: Promise<"late">,
  limits: BodyLimits,
): Promise<string | Response> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let received = 0;
  let text = "";
  for (;;) {
    const reading = reader.read();
    const part = await Promise.race([reading, late]);
    if (part === "late") {
      // Releasing the lock rejects the pending read.
      reading.catch(() => {});
      return reject(408, `The body did not arrive within ${limits.timeoutMs} ms`, -32_000, { Connection: "close" });
    }
    if (part.done) return text + decoder.decode();
    received += part.value.byteLength;
    if (received > limits.maxBytes) return rejectTooLarge(limits);
    const exceeded = limits.take(part.value.byteLength);
    if (exceeded !== undefined) return rejectOverLimit(exceeded, "bytes in requests");
    text += decoder.decode(part.value, { stream: true });
  }
}

const rejectTooLarge = ({ maxBytes }: BodyLimits): Response =>
  reject(413, `Expected a body of at most ${maxBytes} bytes`);
