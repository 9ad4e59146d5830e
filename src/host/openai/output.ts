// Converts a ToolResult to the content parts that a model is shown. The size is limited.
import * as z from "zod";
import type { ContentPart } from "../../sandbox/contract/content.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { createToolFailureMessage } from "../contract/failure-message.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";

/** Limits of the content that is sent for one tool result or user message. */
export interface OutputLimits {
  /** Characters of text in one output, 0 to 10,485,760 (the API's limit). @default 262,144 */
  readonly textChars?: number | undefined;
  /** Bytes of images and files in one output, 0 to 50,000,000 (the API's limit of a request). @default 16 MiB */
  readonly mediaBytes?: number | undefined;
}

export const OutputLimitsSchema = strictObject({
  textChars: z
    .int()
    .min(0)
    .max(10_485_760)
    .default(256 * 1024),
  mediaBytes: z
    .int()
    .min(0)
    .max(50_000_000)
    .default(16 * 1024 * 1024),
});
type ParsedLimits = z.output<typeof OutputLimitsSchema>;

/** @throws {ToolError} PARAM_INVALID, naming the path */
export function parseOutputLimits(limits: unknown = {}): ParsedLimits {
  return parseOptions(OutputLimitsSchema, limits, "limits");
}
/** Image types that vision models accept ("Images and vision", "Image input requirements"). */
const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);
/** File types that are sent as files ("File inputs"). Other types are replaced by a note. */
const FILE_TYPES: ReadonlySet<string> = new Set(["application/pdf"]);

/** A part of an output, for user messages of both APIs and for outputs of the Responses API. */
export type OutputPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly url: string }
  | { readonly type: "file"; readonly data: string; readonly filename: string };

/** Truncates a text that is too long and adds a note. Never splits a surrogate pair. */
function cutText(text: string, chars: number): string {
  if (text.length <= chars) return text;
  const note = `… [cut: the first ${chars} of ${text.length} characters]`;
  return text.slice(0, chars).replace(/[\uD800-\uDBFF]$/, "") + note;
}

const toDataUrl = (data: Uint8Array, mimeType: string): string =>
  `data:${mimeType};base64,${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}`;

const toNote = (what: string, size: number, why = ""): OutputPart => ({
  type: "text",
  text: `[${what}, ${size} bytes: not shown${why}]`,
});

/** Sanitizes a MIME type from a tool for use in a note. */
const sanitize = (text: string): string => text.slice(0, 200).replaceAll(/[\p{Cc}\]]/gu, " ");

/** Collects the parts of one output within its limits. */
class OutputBuilder {
  readonly #parts: OutputPart[] = [];
  #chars: number;
  #bytes: number;

  constructor({ textChars, mediaBytes }: ParsedLimits) {
    this.#chars = textChars;
    this.#bytes = mediaBytes;
  }

  text(text: string): void {
    if (this.#chars <= 0) return;
    this.#parts.push({ type: "text", text: cutText(text, this.#chars) });
    this.#chars -= text.length;
  }

  media(data: Uint8Array, mimeType: string, filename: string): void {
    const isImage = IMAGE_TYPES.has(mimeType);
    if (!isImage && !FILE_TYPES.has(mimeType)) this.#note(toNote(sanitize(mimeType), data.byteLength));
    else if (data.byteLength > this.#bytes) this.#note(toNote(sanitize(mimeType), data.byteLength, ", too large"));
    else {
      this.#bytes -= data.byteLength;
      const url = toDataUrl(data, mimeType);
      this.#parts.push(isImage ? { type: "image", url } : { type: "file", data: url, filename });
    }
  }

  #note(part: OutputPart): void {
    if (part.type === "text") this.text(part.text);
  }

  get parts(): readonly OutputPart[] {
    return this.#parts;
  }
}

const isForModel = ({ annotations }: ContentPart): boolean =>
  annotations?.audience === undefined || annotations.audience.includes("assistant");

function addContent(parts: OutputBuilder, part: ContentPart): void {
  switch (part.type) {
    case "text":
      parts.text(part.text);
      return;
    case "image":
    case "audio":
      parts.media(part.data, part.mimeType, part.type);
      return;
    case "resource": {
      const { resource } = part;
      if ("text" in resource) parts.text(resource.text);
      else parts.media(resource.blob, resource.mimeType ?? "application/octet-stream", fileName(resource.uri));
      return;
    }
    case "resource_link": {
      const { uri, name, title, description, mimeType, size } = part;
      parts.text(JSON.stringify({ uri, name, title, description, mimeType, size }));
    }
  }
}

function fileName(uri: string): string {
  const name = uri.slice(uri.lastIndexOf("/") + 1).replaceAll(/[^A-Za-z0-9_. -]/g, "_");
  return name.slice(-100) || "file";
}

/** Converts the content of a user message. */
export function toUserParts(content: readonly ContentPart[], limits?: OutputLimits): readonly OutputPart[] {
  const parts = new OutputBuilder(parseOutputLimits(limits));
  for (const part of content) addContent(parts, part);
  return parts.parts;
}

/** Converts a result: text unchanged, other values as JSON with base64 for bytes, then the content parts. A failure is one sentence. */
export function toOutputParts(result: ToolResult, limits?: OutputLimits): readonly OutputPart[] {
  const parts = new OutputBuilder(parseOutputLimits(limits));
  if (result.success !== true) {
    parts.text(createToolFailureMessage(result) ?? "");
    return parts.parts;
  }
  const { output, content = [] } = result;
  const shown = content.filter(isForModel);
  // A tool that returns only content has null as its output.
  if (output !== null || shown.length === 0) {
    parts.text(typeof output === "string" ? output : (JSON.stringify(toJson(output)) ?? "null"));
  }
  for (const part of shown) addContent(parts, part);
  return parts.parts;
}

/** Joins the parts to text, for messages that contain only text. */
export function toTextOnly(parts: readonly OutputPart[]): string {
  return parts
    .map((part) => {
      if (part.type === "text") return part.text;
      const url = part.type === "image" ? part.url : part.data;
      const type = /^data:([^;]*)/.exec(url)?.[1] ?? part.type;
      return `[${type}, ${Math.floor(((url.length - url.indexOf(",") - 1) * 3) / 4)} bytes: not shown]`;
    })
    .join("\n");
}
