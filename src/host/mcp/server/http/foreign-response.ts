// Converts a Response that a function of the host returned into one of this realm. `@hono/node-server` replaces the global Response, and
// the package undici has a class of its own, so `instanceof Response` is false for their responses. They are recognized by their fields.
import { ignoreOutcome, runCallback } from "../../../util/host-callback.ts";

const MAX_BODY_BYTES = 256 * 1024;
const BODY_TIMEOUT_MS = 2_000;
const MIN_STATUS = 200;
const MAX_STATUS = 599;
/** Statuses whose responses have no body (Fetch, "null body status"). */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);
/** Headers about the connection and encoding of the original message. `fetch()` has decoded its body, and this server encodes it anew. */
const DROPPED_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

interface ResponseFields {
  readonly status: number;
  readonly headers: Iterable<unknown>;
  readonly body: unknown;
}

/** The methods of a stream reader that this file calls. The stream may be from any realm. */
interface Reader {
  read(): PromiseLike<{ readonly done?: boolean; readonly value?: unknown }>;
  cancel(): unknown;
}

/** Reads each field of a response once. Returns undefined for any other value, including a proxy that throws. */
function readResponse(value: unknown): ResponseFields | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  try {
    if (!("status" in value && "headers" in value && "body" in value)) return undefined;
    const { status, headers, body } = value;
    if (!Number.isInteger(status) || typeof headers !== "object" || headers === null) return undefined;
    if (typeof (headers as { get?: unknown }).get !== "function" || !(Symbol.iterator in headers)) return undefined;
    return { status: status as number, headers: headers as Iterable<unknown>, body };
  } catch {
    return undefined;
  }
}

function copyHeaders(headers: Iterable<unknown>): Headers {
  const copied = new Headers();
  for (const [name, value] of headers as Iterable<readonly [unknown, unknown]>) {
    if (!DROPPED_HEADERS.has(String(name).toLowerCase())) copied.append(String(name), String(value));
  }
  return copied;
}

async function readAll(reader: Reader): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done === true) return new Uint8Array(Buffer.concat(parts));
    if (!ArrayBuffer.isView(value)) throw new TypeError("Expected a body of bytes");
    bytes += value.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new RangeError(`Expected a body of at most ${MAX_BODY_BYTES} bytes`);
    parts.push(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  }
}

/** Returns the body; undefined if there is none, or if it is too large, was already read, fails or does not end in time. */
async function readBody(body: unknown): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (typeof body !== "object" || body === null) return undefined;
  let reader: Reader | undefined;
  const read = (): Promise<unknown> => {
    const opened = (body as { getReader(): Reader }).getReader();
    reader = opened;
    return readAll(opened);
  };
  const outcome = await runCallback(read, { timeoutMs: BODY_TIMEOUT_MS });
  if ("answer" in outcome) return outcome.answer as Uint8Array<ArrayBuffer>;
  ignoreOutcome(() => reader?.cancel());
  return undefined;
}

/**
 * Returns a copy of a response from any realm; undefined for a value that is not a response, or that has a status outside of 200 to 599.
 * The copy has no body if the original has more than 256 KiB or cannot be read within 2 s.
 */
export async function toLocalResponse(value: unknown): Promise<Response | undefined> {
  const fields = readResponse(value);
  if (fields === undefined || fields.status < MIN_STATUS || fields.status > MAX_STATUS) return undefined;
  const { status } = fields;
  try {
    const headers = copyHeaders(fields.headers);
    const body = WITHOUT_BODY.has(status) ? undefined : await readBody(fields.body);
    return new Response(body ?? null, { status, headers });
  } catch {
    // The headers cannot be read, or are not valid in a response.
    return undefined;
  }
}
