// Reads a response body of limited size according to its content type.
import { Buffer } from "node:buffer";

export type BodyType = "json" | "text" | "base64";

export interface ReadOptions {
  readonly as: BodyType | "auto";
  readonly maxBytes: number;
  readonly contentType: string | null;
}

export interface ReadBody {
  readonly body: unknown;
  readonly bodyType: BodyType;
  readonly bytes: number;
  readonly truncated: boolean;
}

/** @throws {Error} for a body that is not the requested JSON or text */
export async function readBody(response: Response, { as, maxBytes, contentType }: ReadOptions): Promise<ReadBody> {
  const { bytes, truncated } = await readBytes(response, maxBytes);
  const whole = { bytes: bytes.length, truncated };
  const { type, charset } = parseContentType(contentType);
  if (as === "base64" || (as === "auto" && !isText(type))) {
    return { body: Buffer.from(bytes).toString("base64"), bodyType: "base64", ...whole };
  }
  const text = decode(bytes, charset);
  if (as === "text" || (as === "auto" && (!isJson(type) || truncated)))
    return { body: text, bodyType: "text", ...whole };
  if (truncated)
    throw new Error(`The body is not whole: it has more than ${maxBytes} bytes. Raise maxBytes, or ask for text`);
  try {
    return { body: JSON.parse(text), bodyType: "json", ...whole };
  } catch (cause) {
    // A body with a JSON content type that is not JSON is returned as text, unless JSON was requested.
    if (as === "auto") return { body: text, bodyType: "text", ...whole };
    throw new Error(`The body is not JSON: ${(cause as Error).message}`);
  }
}

async function readBytes(
  response: Response,
  maxBytes: number,
): Promise<{ readonly bytes: Uint8Array; readonly truncated: boolean }> {
  const bytes = new Uint8Array(maxBytes);
  let length = 0;
  for await (const chunk of response.body ?? []) {
    const room = maxBytes - length;
    bytes.set(chunk.subarray(0, room), length);
    length += Math.min(room, chunk.length);
    // Leaving the loop cancels the body.
    if (chunk.length > room) return { bytes, truncated: true };
  }
  return { bytes: bytes.subarray(0, length), truncated: false };
}

function parseContentType(contentType: string | null): { readonly type: string; readonly charset: string } {
  const [type = "", ...parameters] = (contentType ?? "").toLowerCase().split(";");
  const charset = parameters
    .map((one) => /^\s*charset\s*=\s*"?([^"\s]+)/.exec(one)?.[1])
    .find((one) => one !== undefined);
  return { type: type.trim(), charset: charset ?? "utf-8" };
}

const isJson = (type: string): boolean => type === "application/json" || type.endsWith("+json");
const TEXT_TYPES = new Set([
  "",
  "application/javascript",
  "application/xml",
  "application/x-ndjson",
  "application/yaml",
  "application/graphql",
]);
const isText = (type: string): boolean =>
  type.startsWith("text/") || isJson(type) || type.endsWith("+xml") || TEXT_TYPES.has(type);

function decode(bytes: Uint8Array, charset: string): string {
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}
