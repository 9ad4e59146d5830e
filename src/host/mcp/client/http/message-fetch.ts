// Creates the fetch function for protocol requests. They go to the server's own origin only and carry the host's headers. Responses are
// limited and parsed before the SDK's transport receives them.
import { type FetchLike, ProtocolError } from "@modelcontextprotocol/client";
import { isSmallJson, parseSmallJson } from "../../../json/parse-json.ts";
import { BoundedBytes, type LongMessage } from "../reading/bounded-bytes.ts";
import { readMessage, UNREADABLE_CODE } from "../reading/read-message.ts";
import { readingBudget } from "../reading/reading-budget.ts";
import { toStubStream } from "./event-stream.ts";
import { readRetryAfter } from "./failed-request.ts";
import type { MessageStubs } from "./message-stubs.ts";
import { type SentRequest, sentRequest } from "./request-answer.ts";

/** Limit for the body of a response that is not a message: an error, or the response to a notification. */
const MAX_NOTE_BYTES = 64 * 1024;
const NOTE_LIMITS = { bytes: MAX_NOTE_BYTES, depth: 32, values: 10_000 } as const;
const NOTE_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
/** Response headers that the SDK's transport reads. */
const KEPT_HEADERS = ["content-type", "location", "mcp-session-id", "www-authenticate", "dpop-nonce"] as const;

export interface MessageFetchOptions {
  readonly endpoint: URL;
  /** Headers of each request. Headers of the protocol take precedence. */
  readonly headers: { readonly [name: string]: string };
  /** Limit for one message, in bytes. */
  readonly maxBytes: number;
  readonly stubs: MessageStubs;
}

/** Returns whether a URL has the server's own origin, or the same host with https instead of the configured http. */
function isServerUrl(url: URL, { protocol, origin, hostname, port }: URL): boolean {
  if (url.origin === origin) return true;
  const isUpgrade = protocol === "http:" && url.protocol === "https:";
  return isUpgrade && url.hostname === hostname && url.port === "" && port === "";
}

export function createMessageFetch(options: MessageFetchOptions): FetchLike {
  return async (input, init) => {
    const url = new URL(input);
    if (!isServerUrl(url, options.endpoint))
      throw new TypeError("The request was blocked: its origin differs from the server's");
    const headers = new Headers(options.headers);
    for (const [name, value] of new Headers(init?.headers)) headers.set(name, value);
    const response = await fetch(url, { ...init, headers });
    const sent = sentRequest.getStore();
    if (sent !== undefined) sent.retryAfterMs = readRetryAfter(response);
    return limitResponse(response, options, init?.signal ?? undefined);
  };
}

/** Returns a response whose body is limited, and read only when the transport reads it. */
function limitResponse(response: Response, options: MessageFetchOptions, signal: AbortSignal | undefined): Response {
  const { status, statusText, ok, url, type, redirected, body } = response;
  const headers = new Headers();
  for (const name of KEPT_HEADERS) {
    const value = response.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  const isEvents = ok && /^\s*text\/event-stream\s*(;|$)/i.test(headers.get("content-type") ?? "");
  const events = isEvents && body !== null ? toStubStream(body, options) : null;
  const bounded = new Response(events, { status, statusText, headers });
  return Object.defineProperties(bounded, {
    // The SDK reads these for its redirect policy.
    url: { value: url },
    type: { value: type },
    redirected: { value: redirected },
    text: { value: () => (events === null ? readNote(body) : discard(events)) },
    json: { value: () => readStub(body, options, signal) },
  });
}

/** Cancels an event stream that the SDK reads as text, which it does only to discard a response. Never rejects. */
async function discard(events: ReadableStream<Uint8Array>): Promise<string> {
  await events.cancel().catch(() => {});
  return "";
}

/** Reads a body that is one message, and returns its stub. @throws {ProtocolError} as a rejection, if it is not a message */
async function readStub(
  body: ReadableStream<Uint8Array> | null,
  { maxBytes, stubs }: MessageFetchOptions,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const sent: Partial<SentRequest> = sentRequest.getStore() ?? {};
  sent.answer = "begun";
  const bytes = await readBody(body, maxBytes);
  sent.answer = "ended";
  const message = await readMessage(bytes, maxBytes, signal ?? new AbortController().signal);
  const stub = message === undefined ? undefined : stubs.put(message);
  if (stub !== undefined) return JSON.parse(stub.text);
  const isLong = "head" in bytes;
  throw new ProtocolError(
    UNREADABLE_CODE,
    isLong ? `The response is longer than ${maxBytes} bytes` : "The response is not a JSON-RPC message",
  );
}

/** Returns the text of an error, which the transport may parse as JSON; an empty string if that would be unsafe. Never rejects. */
async function readNote(body: ReadableStream<Uint8Array> | null): Promise<string> {
  try {
    const bytes = await readBody(body, MAX_NOTE_BYTES);
    if ("head" in bytes) return "";
    const text = bytes.toString("utf8").toWellFormed();
    if (!/^\s*[[{]/.test(text)) return text;
    if (isSmallJson(text)) parseSmallJson(text, NOTE_LIMITS, NOTE_CODES, "The response");
    return text;
  } catch {
    return "";
  }
}

/** Reads a body to its end, or until it exceeds the limit. */
async function readBody(body: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Buffer | LongMessage> {
  const bytes = new BoundedBytes(maxBytes);
  if (body === null) return bytes.take();
  const source = body.getReader();
  for (let piece = await source.read(); !piece.done; piece = await source.read()) {
    const began = performance.now();
    const { buffer, byteOffset, byteLength } = piece.value;
    bytes.add(Buffer.from(buffer, byteOffset, byteLength));
    if (bytes.bytes > maxBytes) {
      await source.cancel().catch(() => {});
      break;
    }
    const wait = readingBudget.charge(began);
    if (wait !== undefined) await wait;
  }
  return bytes.take();
}
