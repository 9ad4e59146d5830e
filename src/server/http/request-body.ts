// Reads the body of a request up to its limit, as text in valid UTF-8.
import type { IncomingMessage } from "node:http";
import type { Context } from "hono";
import { type JsonValue, ToolError } from "../../host/index.ts";
import { isSmallJson } from "../../host/json/parse-json.ts";
import { parseInputText } from "../calls/input-text.ts";
import type { KeptBody } from "./body-bytes.ts";
import type { AppEnv } from "./context.ts";
import { RequestError } from "./request-error.ts";

export const JSON_TYPE = "application/json";

const tooLarge = (maxBytes: number): RequestError =>
  new RequestError("TOO_LARGE", `Expected a body of at most ${maxBytes} bytes`);

/** Reads a body of limited size. */
export async function readBody(request: Request, maxBytes: number, kept: KeptBody): Promise<Request> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    kept.add(part.byteLength);
    parts.push(part);
  }
  const { method, headers, url, signal } = request;
  const body = Buffer.concat(parts);
  decodeBody([body]);
  return new Request(url, { method, headers, signal, body });
}

const DECODER = new TextDecoder("utf-8", { fatal: true });

/** @throws {RequestError} MALFORMED for bytes that are not UTF-8: with replacement characters, a tool would get another value than was sent */
function decodeBody(parts: readonly Uint8Array[]): string {
  try {
    return DECODER.decode(parts.length === 1 ? parts[0] : Buffer.concat(parts));
  } catch {
    throw new RequestError("MALFORMED", "The body is not valid UTF-8");
  }
}

/** Reads the body of a message of Node's HTTP server, up to its limit. Much faster than the body of a web request. */
function readIncoming(incoming: IncomingMessage, maxBytes: number, kept: KeptBody): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly Uint8Array[]>();
  const parts: Uint8Array[] = [];
  let size = 0;
  const onData = (part: Uint8Array): void => {
    size += part.byteLength;
    try {
      if (size > maxBytes) throw tooLarge(maxBytes);
      kept.add(part.byteLength);
      parts.push(part);
    } catch (thrown) {
      settle(thrown as Error);
    }
  };
  const onEnd = (): void => settle();
  const onLost = (): void => settle(new RequestError("MALFORMED", "The body ended too soon"));
  const settle = (error?: Error): void => {
    incoming.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
    if (error === undefined) resolve(parts);
    else {
      // What follows is read and dropped after the response.
      incoming.pause();
      reject(error);
    }
  };
  incoming.on("data", onData).on("end", onEnd).on("error", onLost).on("close", onLost);
  return promise.then(decodeBody);
}

/** Reads the text of a request's body, up to its limit. */
export async function readText(c: Context<AppEnv>, maxBytes: number, kept: KeptBody): Promise<string> {
  if (Number(c.req.header("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const incoming = c.env?.incoming;
  if (incoming !== undefined) return await readIncoming(incoming, maxBytes, kept);
  return await (await readBody(c.req.raw, maxBytes, kept)).text();
}

/** Parses a large body in time slices. @throws {RequestError} MALFORMED, also for a value that no tool can receive */
async function parseLargeBody(text: string, signal: AbortSignal): Promise<JsonValue> {
  try {
    return await parseInputText(text, "The body", signal);
  } catch (thrown) {
    if (!(Error.isError(thrown) && thrown instanceof ToolError)) throw thrown;
    throw new RequestError("MALFORMED", thrown.message);
  }
}

/** Reads the body of a request with JSON for whatever reads it afterwards. */
export async function keepBody(c: Context<AppEnv>, maxBytes: number, kept: KeptBody): Promise<void> {
  const text = await readText(c, maxBytes, kept);
  if (isSmallJson(text)) return c.set("body", { text });
  c.set("body", { value: await parseLargeBody(text, c.req.raw.signal) });
  c.set("isLargeBody", true);
}

/** Returns the value of a body that was kept. @throws {RequestError} MALFORMED */
export function readJson(c: Context<AppEnv>): JsonValue {
  const body = c.get("body");
  if ("value" in body) return body.value;
  try {
    return JSON.parse(body.text) as JsonValue;
  } catch {
    throw new RequestError("MALFORMED", "The body is not valid JSON");
  }
}
