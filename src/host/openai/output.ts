// Results back: what a model is shown of a ToolResult, in the parts that OpenAI's outputs may have. Bounded, whatever a tool has made.
import * as z from "zod";
import type { ContentPart } from "../../sandbox/contract/content.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { createToolFailureMessage } from "../contract/failure-message.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";

export interface OutputLimits {
  /** Characters of text in one output, 0 to 10,485,760, which is the API's own limit. Default: 262,144. */
  readonly textChars?: number | undefined;
  /** Bytes of images and files in one output, 0 to 50,000,000, which is the API's own limit of a request. Default: 16 MiB. */
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
/** What vision models take ("Images and vision", "Image input requirements"). */
const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);
/** What is taken as a file ("File inputs"); the rest is told of. */
const FILE_TYPES: ReadonlySet<string> = new Set(["application/pdf"]);

/** One part of an output, as both APIs name them in a user's message and the Responses API in an output. */
export type OutputPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly url: string }
  | { readonly type: "file"; readonly data: string; readonly filename: string };

/** Cut where it is too long, saying so; never in the middle of a surrogate pair. */
function cutText(text: string, chars: number): string {
  if (text.length <= chars) return text;
  const note = `… [cut: the first ${chars} of ${text.length} characters]`;
  return text.slice(0, chars).replace(/[\uD800-\uDBFF]$/, "") + note;
}

const toDataUrl = (data: Uint8Array, mimeType: string): string =>
  `data:${mimeType};base64,${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}`;

const unshown = (what: string, size: number, why = ""): OutputPart => ({
  type: "text",
  text: `[${what}, ${size} bytes: not shown${why}]`,
});

/** What was written of a type or an address, in a note of ours. */
const named = (text: string): string => text.slice(0, 200).replaceAll(/[\p{Cc}\]]/gu, " ");

/** Spends one output's bounds, part by part. */
class Parts {
  readonly #made: OutputPart[] = [];
  #chars: number;
  #bytes: number;

  constructor({ textChars, mediaBytes }: ParsedLimits) {
    this.#chars = textChars;
    this.#bytes = mediaBytes;
  }

  text(text: string): void {
    if (this.#chars <= 0) return;
    this.#made.push({ type: "text", text: cutText(text, this.#chars) });
    this.#chars -= text.length;
  }

  media(data: Uint8Array, mimeType: string, filename: string): void {
    const isImage = IMAGE_TYPES.has(mimeType);
    if (!isImage && !FILE_TYPES.has(mimeType)) this.#note(unshown(named(mimeType), data.byteLength));
    else if (data.byteLength > this.#bytes) this.#note(unshown(named(mimeType), data.byteLength, ", it is too large"));
    else {
      this.#bytes -= data.byteLength;
      const url = toDataUrl(data, mimeType);
      this.#made.push(isImage ? { type: "image", url } : { type: "file", data: url, filename });
    }
  }

  #note(part: OutputPart): void {
    if (part.type === "text") this.text(part.text);
  }

  get parts(): readonly OutputPart[] {
    return this.#made;
  }
}

const isForModel = ({ annotations }: ContentPart): boolean =>
  annotations?.audience === undefined || annotations.audience.includes("assistant");

function addContent(parts: Parts, part: ContentPart): void {
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

/** A user's message in parts. */
export function toUserParts(content: readonly ContentPart[], limits?: OutputLimits): readonly OutputPart[] {
  const parts = new Parts(parseOutputLimits(limits));
  for (const part of content) addContent(parts, part);
  return parts.parts;
}

/** Text as it is, anything else as JSON, bytes in base64; then its content. A failure is one sentence. */
export function toOutputParts(result: ToolResult, limits?: OutputLimits): readonly OutputPart[] {
  const parts = new Parts(parseOutputLimits(limits));
  if (result.success !== true) {
    parts.text(createToolFailureMessage(result) ?? "");
    return parts.parts;
  }
  const { output, content = [] } = result;
  const shown = content.filter(isForModel);
  // A tool that has only content to show says null beside it.
  if (output !== null || shown.length === 0) {
    parts.text(typeof output === "string" ? output : (JSON.stringify(toJson(output)) ?? "null"));
  }
  for (const part of shown) addContent(parts, part);
  return parts.parts;
}

/** For where only text is taken. */
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
