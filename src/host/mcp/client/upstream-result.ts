// Converts the result of an upstream tool to an output and content parts. The result is untrusted: it is read part by part, within limits,
// and the router validates the output once more.
import { setImmediate as turn } from "node:timers/promises";
import type { ContentPart } from "../../../sandbox/contract/content.ts";
import { CONTENT_KEY } from "../../../sandbox/contract/content.ts";
import { type ErrorDetails, type JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { storeJsonText } from "../../json/json-text-of.ts";
import { parseLargeText, parseSmallJson } from "../../json/parse-json.ts";
import { writeJson } from "../../json/write-json.ts";
import { type JsonObject, sizeOf } from "./reading/json-size.ts";
import { countKeys, isSameJson } from "./reading/same-json.ts";
import { toVisible } from "./text/visible-text.ts";

/** Largest number of content parts in a result. */
const MAX_PARTS = 1_000;
/** Largest size of the content in the details of a failure, in characters and values. */
const MAX_ERROR_SIZE = 64 * 1024;
const MAX_MESSAGE_LENGTH = 4_096;
/** Longest text that is parsed without slicing, which takes 0.3 ms at most (measured). */
const SMALL_TEXT_LENGTH = 8 * 1024;
/** The limits of a message. */
const TEXT_LIMITS = { depth: 256, values: 2_000_000, members: 40_000 } as const;
const TEXT_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
/** Largest value, in characters and values, that the next stage of the call serializes without slicing. */
const SMALL_VALUE_SIZE = 256 * 1024;
/** Largest number of texts that are compared with the value. A server that repeats the value does so once. */
const MAX_COMPARED = 4;
/** Longest time in ms that comparing texts may run before it yields to the event loop. */
const SLICE_MS = 4;

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
/** Base64 of either alphabet, also in lines, as MIME encoders write it. No two parts match white space: trying each division is quadratic. */
const BASE64 = /^[A-Za-z0-9+/_\s-]*={0,2}$/;

function toBytes(data: unknown, where: string): Uint8Array {
  if (typeof data !== "string" || !BASE64.test(data.trimEnd())) throw invalid(where, "base64");
  const bytes = Buffer.from(data, "base64");
  // Node.js ignores a last character that does not make a byte.
  const digits = data.replaceAll(/[\s=]+/g, "").length;
  if (digits % 4 === 1) throw invalid(where, "base64");
  return bytes;
}

const invalid = (where: string, expected: string): ToolError =>
  new ToolError("OUTPUT_INVALID", `Invalid result of the MCP server: ${where}: expected ${expected}`);

function toAnnotations(value: unknown): Pick<ContentPart, "annotations"> {
  if (!isJsonObject(value)) return {};
  const { audience, priority, lastModified } = value;
  const isAudience = Array.isArray(audience) && audience.every((one) => one === "user" || one === "assistant");
  const isDate =
    typeof lastModified === "string" && /^\d{4}-\d\d-\d\dT[\d:.]{5,20}(Z|[+-]\d\d:\d\d)$/.test(lastModified);
  const annotations = {
    ...(isAudience && audience.length <= 2 ? { audience: audience as ("user" | "assistant")[] } : {}),
    ...(typeof priority === "number" && priority >= 0 && priority <= 1 ? { priority } : {}),
    ...(isDate ? { lastModified } : {}),
  };
  return Object.keys(annotations).length === 0 ? {} : { annotations };
}

function toResource(value: unknown, where: string): Extract<ContentPart, { type: "resource" }>["resource"] {
  if (!isJsonObject(value) || typeof value.uri !== "string") throw invalid(where, "a resource with a uri");
  const { uri } = value;
  const mimeType = textOf(value.mimeType);
  const base = mimeType === undefined ? { uri } : { uri, mimeType };
  if (typeof value.text === "string") return { ...base, text: value.text };
  return { ...base, blob: toBytes(value.blob, `${where}.blob`) };
}

function toLink(part: JsonObject, where: string): ContentPart {
  const { uri, name, size } = part;
  if (typeof uri !== "string" || typeof name !== "string") throw invalid(where, "a link with a uri and a name");
  const title = textOf(part.title);
  const description = textOf(part.description);
  const mimeType = textOf(part.mimeType);
  return {
    type: "resource_link",
    uri,
    name,
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(mimeType === undefined ? {} : { mimeType }),
    ...(typeof size === "number" && Number.isInteger(size) && size >= 0 ? { size } : {}),
    ...toAnnotations(part.annotations),
  };
}

/** Converts a content part. Unknown members are dropped. @throws {ToolError} OUTPUT_INVALID */
function toPart(part: unknown, index: number): ContentPart {
  const where = `content[${index}]`;
  if (!isJsonObject(part)) throw invalid(where, "an object");
  const annotations = toAnnotations(part.annotations);
  switch (part.type) {
    case "text":
      if (typeof part.text !== "string") throw invalid(`${where}.text`, "a string");
      return { type: "text", text: part.text, ...annotations };
    case "image":
    case "audio":
      if (typeof part.mimeType !== "string") throw invalid(`${where}.mimeType`, "a string");
      return { type: part.type, data: toBytes(part.data, `${where}.data`), mimeType: part.mimeType, ...annotations };
    case "resource":
      return { type: "resource", resource: toResource(part.resource, `${where}.resource`), ...annotations };
    case "resource_link":
      return toLink(part, where);
    default:
      throw invalid(`${where}.type`, "text, image, audio, resource or resource_link");
  }
}

function toParts(content: unknown): readonly ContentPart[] {
  if (content === undefined) return [];
  if (!Array.isArray(content)) throw invalid("content", "a list");
  if (content.length > MAX_PARTS) throw invalid("content", `at most ${MAX_PARTS} parts`);
  return content.map(toPart);
}

type Text = Extract<ContentPart, { type: "text" }>;
const isPlainText = (part: ContentPart): part is Text => part.type === "text" && part.annotations === undefined;

/**
 * Returns whether a text part only repeats the value as JSON. Servers add such a part for clients without structured content; it is dropped.
 * The text can be as large as a message, and the limits here are the only ones on its JSON.
 */
async function repeats(part: Text, value: JsonValue, valueKeys: number, signal: AbortSignal): Promise<boolean> {
  const limits = { ...TEXT_LIMITS, bytes: part.text.length * 3 };
  try {
    const parsed =
      part.text.length <= SMALL_TEXT_LENGTH
        ? parseSmallJson(part.text, limits, TEXT_CODES, "The text")
        : await parseLargeText(part.text, limits, TEXT_CODES, "The text", signal);
    return await isSameJson(parsed, value, signal, valueKeys);
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    return false;
  }
}

/** Serializes a large value in slices, for the next stage of the call, which needs its JSON text. */
async function noteText(value: JsonValue, signal: AbortSignal): Promise<void> {
  if (typeof value !== "object" || value === null || sizeOf(value, SMALL_VALUE_SIZE) <= SMALL_VALUE_SIZE) return;
  storeJsonText(value, await writeJson(value, signal));
}

async function withoutRepeats(
  parts: readonly ContentPart[],
  value: JsonValue,
  signal: AbortSignal,
): Promise<readonly ContentPart[]> {
  const compared = new Set<ContentPart>(parts.filter(isPlainText).slice(0, MAX_COMPARED));
  const valueKeys = compared.size === 0 ? 0 : countKeys(value);
  const kept: ContentPart[] = [];
  let began = performance.now();
  for (const part of parts) {
    signal.throwIfAborted();
    const isRepeated = compared.has(part) && isPlainText(part) && (await repeats(part, value, valueKeys, signal));
    if (!isRepeated) kept.push(part);
    if (performance.now() - began < SLICE_MS) continue;
    await turn();
    began = performance.now();
  }
  return kept;
}

/**
 * Converts a result to the return value of a host function: the structured content, or else the text. Other content parts are attached to
 * it.
 * @throws {ToolError} as a rejection: TOOL_FAILED if the result reports a failure, OUTPUT_INVALID if it is malformed. If the signal aborts,
 *   rejects with its reason.
 */
export async function toReturned(result: JsonObject, toolName: string, signal: AbortSignal): Promise<unknown> {
  if (result.isError === true) throw toToolFailure(result, toolName);
  const parts = toParts(result.content);
  if (result.structuredContent !== undefined) {
    const output = result.structuredContent as JsonValue;
    const others = await withoutRepeats(parts, output, signal);
    await noteText(output, signal);
    return others.length === 0 ? output : { output, [Symbol.for(CONTENT_KEY)]: others };
  }
  if (parts.length > 0 && parts.every(isPlainText)) return parts.map(({ text }) => text).join("\n");
  return parts.length === 0 ? null : { output: null, [Symbol.for(CONTENT_KEY)]: parts };
}

/** Returns as many content parts, unchanged, as fit into the details of an error. */
function truncateContent(content: unknown): {
  readonly content: readonly JsonValue[];
  readonly contentLeftOut?: number;
} {
  const all = Array.isArray(content) ? content : [];
  const kept: JsonValue[] = [];
  let left = MAX_ERROR_SIZE;
  for (const part of all.slice(0, MAX_PARTS)) {
    left -= sizeOf(part, left);
    if (left < 0) break;
    kept.push(part as JsonValue);
  }
  return { content: kept, ...(kept.length === all.length ? {} : { contentLeftOut: all.length - kept.length }) };
}

function toToolFailure(result: JsonObject, toolName: string): ToolError {
  const { content, structuredContent } = result;
  const texts = (Array.isArray(content) ? content.slice(0, MAX_PARTS) : []).flatMap((part: unknown) =>
    isJsonObject(part) && part.type === "text" && typeof part.text === "string" ? [part.text] : [],
  );
  const message = toVisible(texts.join("\n").trim().slice(0, MAX_MESSAGE_LENGTH));
  const value = structuredContent === undefined ? undefined : truncateContent([structuredContent]).content[0];
  const details: ErrorDetails = {
    ...truncateContent(content),
    ...(value === undefined ? {} : { structuredContent: value }),
  };
  return new ToolError("TOOL_FAILED", message === "" ? `"${toolName}" failed without an error message` : message, {
    details,
  });
}
