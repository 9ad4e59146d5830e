// Reads responses. What answers need not be a Glovebox server, and a connection can break at any byte: each response is limited in size, parsed
// and checked before it is used, and whatever is wrong with it is an ApiError.
import { EventStreamParser } from "../../sandbox/contract/event-stream.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/value-kind.ts";
import type { CallEvent } from "../types.ts";
import { ApiError, networkError } from "./api-error.ts";

/** A response whose body is unread, and what its errors name. */
export interface UnreadResponse {
  readonly response: Response;
  readonly method: string;
  readonly url: URL;
  readonly signal: AbortSignal | undefined;
  readonly maxBytes: number;
}

/** A page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[];
  /** Undefined for the last page. */
  readonly next: string | undefined;
}

export type StreamedCallEvent = CallEvent & {
  /** Id of the last event that had one; empty before. */
  readonly id: string;
};

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;
const EVENTS_TYPE = /^text\/event-stream\s*(?:;|$)/i;
const HTML_TYPE = /^(?:text\/html|application\/xhtml\+xml)\s*(?:;|$)/i;
/** Longest part of a response that an error shows, in characters. */
const MAX_SHOWN = 200;
/** Longest URL that an error shows, in characters. */
const MAX_SHOWN_URL = 300;
/** Longest time in ms that is waited for the part of a response that an error shows. */
const SHOWN_WAIT_MS = 1_000;
/** Longest cursor in characters. It is sent in a URL. */
const MAX_CURSOR = 4_096;
/** Id of a call, which becomes a segment of a path. */
const CALL_ID = /^call_[\w.]{1,200}$/;
const URL_HINT = "The URL of the client may be wrong";

const ignore = (): void => {};
const quote = (text: string): string =>
  text.length > MAX_SHOWN ? `${JSON.stringify(text.slice(0, MAX_SHOWN))}…` : JSON.stringify(text);

function toRequest({ method, url }: UnreadResponse): string {
  return `${method} ${`${url.origin}${url.pathname}`.slice(0, MAX_SHOWN_URL)}`;
}

/** Returns the error for a response that is not one of the API. */
export function invalidResponse(received: UnreadResponse, issue: string, cause?: unknown): ApiError {
  const { status, headers } = received.response;
  const requestId = headers.get("x-request-id") ?? undefined;
  const message = `Invalid response with status ${status} to ${toRequest(received)}: ${issue}`;
  return new ApiError(message, { status, code: "INVALID_RESPONSE", details: undefined, requestId, cause });
}

function tooLarge(received: UnreadResponse, what: string): ApiError {
  const { status, headers } = received.response;
  const requestId = headers.get("x-request-id") ?? undefined;
  const message = `${what} of ${toRequest(received)} is longer than ${received.maxBytes} bytes (maxResponseBytes)`;
  return new ApiError(message, { status, code: "RESPONSE_TOO_LARGE", details: undefined, requestId, cause: undefined });
}

/** Yields the body of a response. Not every browser can iterate over a stream. */
async function* chunksOf(received: UnreadResponse): AsyncGenerator<Uint8Array, void> {
  const { response, signal, url } = received;
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        signal?.throwIfAborted();
        const message = `The connection to the server at ${url.origin} was lost before its response was complete`;
        throw networkError(message, cause);
      });
      signal?.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(ignore);
  }
}

/** Reads a body into one buffer: a server that sends a byte at a time must not cost an object for each. */
async function readText(received: UnreadResponse): Promise<string> {
  let bytes = new Uint8Array(0);
  let size = 0;
  for await (const chunk of chunksOf(received)) {
    const end = size + chunk.byteLength;
    if (end > received.maxBytes) throw tooLarge(received, "The response");
    if (end > bytes.byteLength) {
      const grown = new Uint8Array(size === 0 ? end : Math.max(end, 2 * size));
      grown.set(bytes.subarray(0, size));
      bytes = grown;
    }
    bytes.set(chunk, size);
    size = end;
  }
  return new TextDecoder().decode(bytes.subarray(0, size));
}

/** Reads the beginning of a body that an error shows. A body that does not begin in time is shown as empty. */
async function readShown({ response, signal }: UnreadResponse): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  const timer = setTimeout(() => void reader.cancel().catch(ignore), SHOWN_WAIT_MS);
  let text = "";
  try {
    while (text.length <= MAX_SHOWN) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value.subarray(0, 4 * MAX_SHOWN), { stream: true });
    }
  } catch {
    signal?.throwIfAborted();
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(ignore);
  }
  return text;
}

async function wrongType(received: UnreadResponse, expected: string): Promise<ApiError> {
  const type = received.response.headers.get("content-type");
  const got = type === null ? "no Content-Type" : quote(type);
  const shown = quote(await readShown(received));
  return invalidResponse(received, `expected ${expected}, got ${got} with ${shown}. ${URL_HINT}`);
}

/**
 * Reads a body of JSON, which is an object in each response of the API.
 * @throws {ApiError} INVALID_RESPONSE for anything else
 */
export async function readJson(received: UnreadResponse): Promise<Readonly<Record<string, unknown>>> {
  const type = received.response.headers.get("content-type");
  if (type !== null && !JSON_TYPE.test(type)) throw await wrongType(received, "JSON");
  const text = await readText(received);
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (cause) {
    throw invalidResponse(received, `expected JSON, got ${quote(text)}. ${URL_HINT}`, cause);
  }
  if (isPlainObject(body)) return body;
  throw invalidResponse(received, `expected an object of JSON, got ${describeKind(body)}. ${URL_HINT}`);
}

/** Returns the error that the body of a response has. */
export function toApiError(
  received: UnreadResponse,
  body: Readonly<Record<string, unknown>>,
  status: number = received.response.status,
): ApiError {
  const { headers } = received.response;
  const error = isPlainObject(body.error) ? body.error : {};
  const { code, message, details } = error;
  if (typeof code !== "string" || typeof message !== "string")
    return invalidResponse(received, `expected an error with a code and a message. ${URL_HINT}`);
  return new ApiError(message, {
    status,
    code,
    details,
    cause: undefined,
    requestId: headers.get("x-request-id") ?? undefined,
  });
}

/** Checks that a response has the items of a list. */
export function toPage<Item>(received: UnreadResponse, { items, next }: Readonly<Record<string, unknown>>): Page<Item> {
  if (!Array.isArray(items)) throw invalidResponse(received, `items: expected an array, got ${describeKind(items)}`);
  const index = items.findIndex((item) => !isPlainObject(item));
  if (index >= 0)
    throw invalidResponse(received, `items.${index}: expected an object, got ${describeKind(items[index])}`);
  if (next === undefined || next === null) return { items, next: undefined };
  if (typeof next !== "string" || next === "" || next.length > MAX_CURSOR)
    throw invalidResponse(received, `next: expected a string of 1 to ${MAX_CURSOR} characters, or null`);
  return { items, next };
}

/** @throws {ApiError} for a response that is not JSON, or has an error */
export async function checkOk(received: UnreadResponse): Promise<void> {
  if (!received.response.ok) throw toApiError(received, await readJson(received));
}

/** @throws {ApiError} for a response that is not a stream of events */
export async function checkEvents(received: UnreadResponse): Promise<void> {
  await checkOk(received);
  if (!EVENTS_TYPE.test(received.response.headers.get("content-type") ?? ""))
    throw await wrongType(received, "text/event-stream");
}

/** @throws {ApiError} for a page of HTML, which no route below /v1 has */
export async function checkNoPage(received: UnreadResponse): Promise<void> {
  await checkOk(received);
  if (HTML_TYPE.test(received.response.headers.get("content-type") ?? ""))
    throw await wrongType(received, "a response of the API");
}

/** Yields the events of a call until the stream ends. Events of unknown names are left out. */
export async function* readEvents(received: UnreadResponse): AsyncGenerator<StreamedCallEvent, void> {
  const parser = new EventStreamParser();
  const decoder = new TextDecoder();
  for await (const chunk of chunksOf(received)) {
    for (const { type, data, lastEventId } of parser.push(decoder.decode(chunk, { stream: true }))) {
      if (data.length > received.maxBytes) throw tooLarge(received, "An event");
      if (type === "error") throw toStreamError(received, toEventData(received, type, data));
      const check = EVENT_CHECKS.get(type);
      if (check === undefined) continue;
      const value = toEventData(received, type, data);
      if (!check(value)) throw invalidResponse(received, `the event "${type}" has invalid data: ${quote(data)}`);
      received.signal?.throwIfAborted();
      yield { event: type, data: value, id: lastEventId } as StreamedCallEvent;
    }
    if (parser.pendingLength > received.maxBytes) throw tooLarge(received, "An event");
  }
}

function toEventData(received: UnreadResponse, type: string, data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw invalidResponse(received, `the event "${type}" is not JSON: ${quote(data)}`, cause);
  }
}

/** Returns the error that ends a stream. Its response has the status of success, so the event has that of the error. */
function toStreamError(received: UnreadResponse, data: unknown): ApiError {
  const body = isPlainObject(data) ? data : {};
  return toApiError(received, body, Number.isInteger(body.status) ? Number(body.status) : 500);
}

const isCallId = (value: unknown): boolean => typeof value === "string" && CALL_ID.test(value);
const hasCallId = (data: unknown): boolean => isPlainObject(data) && isCallId(data.id);
const isAny = (): boolean => true;

/** The events of a call, and what the client needs of their data. */
const EVENT_CHECKS: ReadonlyMap<string, (data: unknown) => boolean> = new Map<
  CallEvent["event"],
  (data: unknown) => boolean
>([
  ["started", hasCallId],
  ["approval", (data) => isPlainObject(data) && typeof data.approvalId === "string" && isCallId(data.callId)],
  ["log", isAny],
  ["progress", isAny],
  ["chunk", isAny],
  ["result", hasCallId],
]);
