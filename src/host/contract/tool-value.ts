// Converts values with bytes in them. On a wire, they are JSON text with placeholders and the bytes as attachments (see BytesHeader); for a
// model, they are JSON with base64.
import { isUint8Array } from "node:util/types";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/value-kind.ts";
import { type BytesHeader, MAX_BYTES_VALUES } from "../../sandbox/protocol/guest-messages.ts";
import { BytesHeaderSchema } from "../../sandbox/protocol/worker-messages.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import { type CpuAccount, copyTimeSliced, runTimeSliced } from "../util/time-slicing.ts";
import { checkValueSize, countSerialized, isOpaque, SizeCounter, type ValueLimits } from "./value-size.ts";

/** A JSON value that may contain bytes anywhere. */
export type ToolValue = JsonValue | Uint8Array | readonly ToolValue[] | { readonly [key: string]: ToolValue };

/** The attached bytes of a JSON text. The placeholder of `parts[n]` in the text is `mark` followed by n. */
export interface BinaryAttachments {
  readonly mark: string;
  readonly parts: readonly Uint8Array[];
}

/** Reads the attachments when they are needed. @throws {ToolError} OUTPUT_INVALID; may also reject with it */
export type AttachmentReader = () => BinaryAttachments | Promise<BinaryAttachments>;

/** Maximum size of the header that lists the lengths of the attachments. A valid header is shorter. */
const MAX_HEADER_BYTES = 16 * 1024;

/** Creates the error for attachments that a guest has forged. */
const mismatchError = (what: string): ToolError =>
  new ToolError("OUTPUT_INVALID", `${what}: the binary attachments do not match their placeholders in the JSON text`);

function parseHeader(header: Buffer): BytesHeader | undefined {
  if (header.length > MAX_HEADER_BYTES) return undefined;
  try {
    return BytesHeaderSchema.safeParse(JSON.parse(header.toString())).data;
  } catch {
    return undefined;
  }
}

/**
 * Returns the attachments of a text. They are still views of the memory of their frame.
 * @throws {ToolError} OUTPUT_INVALID if the lengths do not match the bytes
 */
export function readAttachments(header: Buffer, data: Buffer, what: string): BinaryAttachments {
  const parsed = parseHeader(header);
  const total = parsed?.lengths.reduce((sum, length) => sum + length, 0);
  if (parsed === undefined || total !== data.length) throw mismatchError(what);
  let offset = 0;
  const parts = parsed.lengths.map((length) => {
    const part = data.subarray(offset, offset + length);
    offset += length;
    return part;
  });
  return { mark: parsed.mark, parts };
}

/** Redacts the values that capabilities have registered as secret. */
export async function redactAttachments(
  { mark, parts }: BinaryAttachments,
  redactor: Redactor,
): Promise<BinaryAttachments> {
  const redacted: Uint8Array[] = [];
  for (const part of parts) {
    redacted.push(await redactor.bytes(Buffer.from(part.buffer, part.byteOffset, part.byteLength)));
  }
  return { mark, parts: redacted };
}

/** Returns the index that a placeholder names, or undefined for any other text. */
function placeholderIndex(text: string, { mark, parts }: BinaryAttachments): number | undefined {
  if (!text.startsWith(mark)) return undefined;
  const digits = text.slice(mark.length);
  return /^\d{1,4}$/.test(digits) && Number(digits) < parts.length ? Number(digits) : undefined;
}

type Holder = ToolValue[] | { [key: string]: ToolValue };

/** Replaces each placeholder by its bytes, in the objects of the value. Each attachment is used exactly once. */
class PlaceholderReplacer {
  readonly #attachments: BinaryAttachments;
  readonly #what: string;
  readonly #unused: Set<number>;
  readonly #root: ToolValue[];
  readonly #open: Holder[];

  constructor(value: JsonValue, attachments: BinaryAttachments, what: string) {
    this.#attachments = attachments;
    this.#what = what;
    this.#unused = new Set(attachments.parts.keys());
    this.#root = [value];
    this.#open = [this.#root];
  }

  /** Processes one array or object; returns true when all are done. @throws {ToolError} OUTPUT_INVALID */
  step(): boolean {
    const holder = this.#open.pop();
    if (holder === undefined) {
      if (this.#unused.size > 0) throw mismatchError(this.#what);
      return true;
    }
    if (Array.isArray(holder))
      for (let index = 0; index < holder.length; index += 1) this.#visit(holder, index as never);
    else for (const key in holder) this.#visit(holder, key);
    return false;
  }

  #visit(holder: Holder, key: string): void {
    const child = (holder as { [key: string]: ToolValue })[key];
    if (typeof child === "string") {
      if (child.startsWith(this.#attachments.mark)) (holder as { [key: string]: ToolValue })[key] = this.#take(child);
    } else if (typeof child === "object" && child !== null) this.#open.push(child as Holder);
  }

  #take(text: string): Uint8Array {
    const index = placeholderIndex(text, this.#attachments);
    if (index === undefined || !this.#unused.delete(index)) throw mismatchError(this.#what);
    return this.#attachments.parts[index] as Uint8Array;
  }

  get value(): ToolValue {
    return this.#root[0] as ToolValue;
  }
}

/** Maximum text length and attachment size for which placeholders are replaced without yielding to the event loop. */
const MAX_AT_ONCE = { textLength: 128 * 1024, bytes: 1024 * 1024 } as const;

/** A parsed text and its attachments. */
export interface ParsedText {
  readonly value: JsonValue;
  /** Length of the text in UTF-16 code units, or its size in bytes. */
  readonly textLength: number;
  readonly attachments: BinaryAttachments;
  /** Names the value in messages. */
  readonly what: string;
}

/**
 * Returns the value with its bytes instead of the placeholders; synchronously, unless it is large. The bytes are copies, because a view
 * gives access to the memory of the whole frame.
 * @throws {ToolError} OUTPUT_INVALID for a placeholder without bytes, or bytes without exactly one placeholder; may also reject
 */
export function withBytes(
  { value, textLength, attachments, what }: ParsedText,
  signal: AbortSignal,
  cpuAccount?: CpuAccount,
): ToolValue | Promise<ToolValue> {
  const createReplacer = (parts: readonly Uint8Array[]): PlaceholderReplacer =>
    new PlaceholderReplacer(value, { ...attachments, parts }, what);
  if (textLength <= MAX_AT_ONCE.textLength && sizeOfBytes(attachments) <= MAX_AT_ONCE.bytes) {
    const replacer = createReplacer(attachments.parts.map((part) => new Uint8Array(part)));
    while (!replacer.step());
    return replacer.value;
  }
  const replaceTimeSliced = async (): Promise<ToolValue> => {
    const parts: Uint8Array[] = [];
    for (const part of attachments.parts) parts.push(await copyTimeSliced(part, signal));
    const replacer = createReplacer(parts);
    await runTimeSliced(() => replacer.step(), signal, cpuAccount);
    return replacer.value;
  };
  return replaceTimeSliced();
}

const toBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

/** Returns the text with base64 instead of the placeholders, as a model or a JSON Schema sees it. */
export function withBase64(text: string, attachments: BinaryAttachments): string {
  const begin = `"${attachments.mark}`;
  let replaced = "";
  let from = 0;
  for (let at = text.indexOf(begin); at >= 0; at = text.indexOf(begin, at + 1)) {
    const end = text.indexOf('"', at + 1);
    const index = placeholderIndex(text.slice(at + 1, end), attachments);
    if (index === undefined) continue;
    replaced += `${text.slice(from, at + 1)}${toBase64(attachments.parts[index] as Uint8Array)}`;
    from = end;
  }
  return replaced + text.slice(from);
}

/**
 * Returns the value as models and MCP see it: bytes as base64 (RFC 4648), which JSON Schema calls `contentEncoding: "base64"`. Plain objects and
 * arrays without bytes are not copied: copying an output of 8 MiB can block the event loop for 0.7 s.
 * @throws {ToolError} PARAM_INVALID for a promise, a Map or a Set, whose JSON says nothing of what they contain
 */
export function toJson(value: ToolValue): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  if (isUint8Array(value)) return toBase64(value);
  if (isOpaque(value))
    throw new ToolError("PARAM_INVALID", `value: Expected JSON or bytes, got ${describeKind(value)}`);
  return Array.isArray(value) ? toJsonArray(value) : toJsonObject(value as { readonly [key: string]: ToolValue });
}

function toJsonArray(values: readonly ToolValue[]): JsonValue {
  let copy: JsonValue[] | undefined;
  for (const [index, value] of values.entries()) {
    const json = toJson(value);
    if (json !== value) copy ??= values.slice(0, index) as JsonValue[];
    copy?.push(json);
  }
  return copy ?? (values as readonly JsonValue[]);
}

function toJsonObject(object: { readonly [key: string]: ToolValue }): JsonValue {
  const prototype: unknown = Object.getPrototypeOf(object);
  // An object of a class is always copied: its JSON has its own properties only.
  let copy: [string, JsonValue][] | undefined = prototype === Object.prototype || prototype === null ? undefined : [];
  const keys = Object.keys(object);
  for (const [index, key] of keys.entries()) {
    const value = object[key] as ToolValue;
    const json = toJson(value);
    if (json !== value) copy ??= keys.slice(0, index).map((name) => [name, object[name] as JsonValue]);
    copy?.push([key, json]);
  }
  return copy === undefined ? (object as JsonValue) : (Object.fromEntries(copy) as JsonValue);
}

/** A value as JSON text, and its attachments. */
export interface TextWithBytes {
  readonly text: string | undefined;
  readonly bytes: BinaryAttachments | undefined;
}

/** Number of values that are searched for bytes before the text is built. Most callers have their bytes near the top. */
const MAX_SEARCHED_VALUES = 64;

/** Forms that bytes have in the output of JSON.stringify: an object of indices, an empty object, or the result of Buffer's `toJSON`. */
const SERIALIZED_BYTES = /\{"0":|\{\}|"type":"Buffer"/;

const isBytes = (value: unknown): value is Uint8Array | ArrayBuffer =>
  isUint8Array(value) || value instanceof ArrayBuffer;

function containsBytesNearTop(value: unknown): boolean {
  const open: unknown[] = [value];
  for (let index = 0; index < open.length && index < MAX_SEARCHED_VALUES; index += 1) {
    const each = open[index];
    if (isBytes(each)) return true;
    if (typeof each !== "object" || each === null) continue;
    for (const key of Object.keys(each)) {
      if (open.length >= MAX_SEARCHED_VALUES) break;
      open.push((each as { readonly [key: string]: unknown })[key]);
    }
  }
  return false;
}

/** Returns whether bytes were found near the top. False for a value that cannot be read: JSON.stringify then reports the failure. */
function looksBinary(value: unknown): boolean {
  try {
    return containsBytesNearTop(value);
  } catch {
    return false;
  }
}

/** Number of placeholder prefixes that are tried, because the caller's own text may contain one. */
const MAX_MARKS = 8;

/** Replaces bytes by placeholders. It is slower than JSON.stringify alone, so it is used only for values that may contain bytes. */
function replaceBytes(value: unknown, limits: ValueLimits | undefined): TextWithBytes {
  for (let attempt = 0; attempt < MAX_MARKS; attempt += 1) {
    const mark = attempt === 0 ? "glovebox:bytes:" : `glovebox:bytes:${attempt}:`;
    const parts: Uint8Array[] = [];
    const counter = limits && new SizeCounter(limits);
    const text = JSON.stringify(value, function (this: { readonly [key: string]: unknown }, key, each: unknown) {
      const own = typeof each === "object" && each !== null ? this[key] : each;
      if (!isBytes(own)) {
        if (counter !== undefined) countSerialized(counter, this, key, each);
        return each;
      }
      counter?.add(own.byteLength, 1);
      parts.push(own instanceof ArrayBuffer ? new Uint8Array(own) : own);
      return `${mark}${parts.length - 1}`;
    }) as string | undefined;
    if (text === undefined || parts.length === 0) return { text, bytes: undefined };
    if (parts.length > MAX_BYTES_VALUES) throw new RangeError(`Expected at most ${MAX_BYTES_VALUES} binary values`);
    if (text.split(`"${mark}`).length - 1 === parts.length) return { text, bytes: { mark, parts } };
  }
  throw new RangeError("Expected no strings that start like a binary placeholder (glovebox:bytes:)");
}

/** Smaller values are always serialized, so that the error can state their size. */
const ALWAYS_SERIALIZED = 256 * 1024;

/** The largest number of values that the limits of a call allow. */
const MAX_VALUES = 1_250_000;

const toStops = ({
  bytes = Number.POSITIVE_INFINITY,
  values = MAX_VALUES,
  rejectsOpaque,
}: Partial<ValueLimits>): ValueLimits => ({
  rejectsOpaque,
  bytes: Math.max(bytes, ALWAYS_SERIALIZED),
  values: Math.max(values, ALWAYS_SERIALIZED),
});

/**
 * Returns a value of this process as JSON text, with its bytes (Uint8Array, Buffer, ArrayBuffer) as attachments. For a value without bytes,
 * it takes as long as JSON.stringify and a short search. Throws what JSON.stringify throws.
 * @param limits sizes at which it stops. Values of up to 256 KiB are serialized even if a limit is lower, so the caller must check the size.
 * @throws {ValueTooLargeError} if it stopped at a limit
 */
export function toTextWithBytes(value: unknown, limits?: Partial<ValueLimits>): TextWithBytes {
  const stops = limits && toStops(limits);
  const isExotic = stops !== undefined && checkValueSize(value, stops);
  if (isExotic || looksBinary(value)) return replaceBytes(value, stops);
  const text = JSON.stringify(value) as string | undefined;
  return text !== undefined && SERIALIZED_BYTES.test(text) ? replaceBytes(value, stops) : { text, bytes: undefined };
}

/** Returns the text of JSON.stringify, for values without bytes. Throws as {@link toTextWithBytes} does. */
export function toBoundedJson(value: unknown, limits: ValueLimits): string | undefined {
  const stops = { ...toStops(limits), values: limits.values };
  if (!checkValueSize(value, stops)) return JSON.stringify(value);
  const counter = new SizeCounter(stops);
  return JSON.stringify(value, function (this: unknown, key, each: unknown) {
    countSerialized(counter, this, key, each);
    return each;
  });
}

/** Returns the two parts of a frame that carry the attachments: a header with their lengths, and their bytes. */
export function toAttachmentParts({ mark, parts }: BinaryAttachments): [header: string, data: Uint8Array] {
  const header: BytesHeader = { mark, lengths: parts.map((part) => part.byteLength) };
  return [JSON.stringify(header), Buffer.concat(parts)];
}

/** Returns the total size of attachments in bytes. */
export const sizeOfBytes = (attachments: BinaryAttachments | undefined): number =>
  attachments?.parts.reduce((sum, part) => sum + part.byteLength, 0) ?? 0;
