// JSON values with bytes in them. Over a wire they are JSON text with marks, and the bytes beside it (see BytesHeader); to a model they
// are JSON with base64 in their place.
import { isUint8Array } from "node:util/types";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { type BytesHeader, MAX_BYTES_VALUES } from "../../sandbox/protocol/guest-messages.ts";
import { BytesHeaderSchema } from "../../sandbox/protocol/messages.ts";
import type { Redactor } from "../observability/redaction/redactor.ts";
import { type CpuAccount, copyTimeSliced, runTimeSliced } from "../util/time-slicing.ts";
import { checkValueSize, countWritten, SizeCounter, type ValueLimits } from "./value-size.ts";

/** JSON, and bytes anywhere in it. */
export type ToolValue = JsonValue | Uint8Array | readonly ToolValue[] | { readonly [key: string]: ToolValue };

/** The bytes beside a text. */
export interface BinaryAttachments {
  readonly mark: string;
  readonly parts: readonly Uint8Array[];
}

/** Looks at them when they are wanted. @throws {ToolError} OUTPUT_INVALID, or rejects with it */
export type AttachmentReader = () => BinaryAttachments | Promise<BinaryAttachments>;

/** Longer than any well-formed one. */
const MAX_HEADER_BYTES = 16 * 1024;

const forged = (what: string): ToolError =>
  new ToolError("OUTPUT_INVALID", `${what}: expected each of its values of bytes in its place, got them otherwise`);

function parseHeader(header: Buffer): BytesHeader | undefined {
  if (header.length > MAX_HEADER_BYTES) return undefined;
  try {
    return BytesHeaderSchema.safeParse(JSON.parse(header.toString())).data;
  } catch {
    return undefined;
  }
}

/**
 * What came beside a text, still in the memory of its frame.
 * @throws {ToolError} OUTPUT_INVALID where the lengths are not those of the bytes
 */
export function readBeside(header: Buffer, data: Buffer, what: string): BinaryAttachments {
  const parsed = parseHeader(header);
  const total = parsed?.lengths.reduce((sum, length) => sum + length, 0);
  if (parsed === undefined || total !== data.length) throw forged(what);
  let offset = 0;
  const parts = parsed.lengths.map((length) => {
    const part = data.subarray(offset, offset + length);
    offset += length;
    return part;
  });
  return { mark: parsed.mark, parts };
}

/** Without what capabilities have concealed. */
export async function redactBeside({ mark, parts }: BinaryAttachments, redactor: Redactor): Promise<BinaryAttachments> {
  const redacted: Uint8Array[] = [];
  for (const part of parts) {
    redacted.push(await redactor.bytes(Buffer.from(part.buffer, part.byteOffset, part.byteLength)));
  }
  return { mark, parts: redacted };
}

/** The index that a marked text names; undefined for any other text. */
function indexIn(text: string, { mark, parts }: BinaryAttachments): number | undefined {
  if (!text.startsWith(mark)) return undefined;
  const digits = text.slice(mark.length);
  return /^\d{1,4}$/.test(digits) && Number(digits) < parts.length ? Number(digits) : undefined;
}

type Holder = ToolValue[] | { [key: string]: ToolValue };

/** Puts bytes in the place of their marks, in the value's own objects: each of them once, and all of them. */
class Placing {
  readonly #beside: BinaryAttachments;
  readonly #what: string;
  readonly #left: Set<number>;
  readonly #root: ToolValue[];
  readonly #open: Holder[];

  constructor(value: JsonValue, beside: BinaryAttachments, what: string) {
    this.#beside = beside;
    this.#what = what;
    this.#left = new Set(beside.parts.keys());
    this.#root = [value];
    this.#open = [this.#root];
  }

  /** One array or object; true when all are done. @throws {ToolError} OUTPUT_INVALID */
  step(): boolean {
    const holder = this.#open.pop();
    if (holder === undefined) {
      if (this.#left.size > 0) throw forged(this.#what);
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
      if (child.startsWith(this.#beside.mark)) (holder as { [key: string]: ToolValue })[key] = this.#take(child);
    } else if (typeof child === "object" && child !== null) this.#open.push(child as Holder);
  }

  #take(text: string): Uint8Array {
    const index = indexIn(text, this.#beside);
    if (index === undefined || !this.#left.delete(index)) throw forged(this.#what);
    return this.#beside.parts[index] as Uint8Array;
  }

  get value(): ToolValue {
    return this.#root[0] as ToolValue;
  }
}

/** What is placed at once: more would hold up the event loop. */
const AT_ONCE = { units: 128 * 1024, bytes: 1024 * 1024 } as const;

/** A text that was parsed, and what came beside it. */
export interface ParsedText {
  readonly value: JsonValue;
  readonly units: number;
  readonly beside: BinaryAttachments;
  /** Names the value in messages. */
  readonly what: string;
}

/**
 * The value with its bytes, each where its mark is; at once, unless there is much of it. The bytes are copies: whoever has a view of
 * some memory has all of it.
 * @throws {ToolError} OUTPUT_INVALID for a mark without bytes, or bytes without one mark; or rejects with it or with the signal's reason
 */
export function withBytes(
  { value, units, beside, what }: ParsedText,
  signal: AbortSignal,
  payer?: CpuAccount,
): ToolValue | Promise<ToolValue> {
  const place = (parts: readonly Uint8Array[]): Placing => new Placing(value, { ...beside, parts }, what);
  if (units <= AT_ONCE.units && sizeOfBytes(beside) <= AT_ONCE.bytes) {
    const placing = place(beside.parts.map((part) => new Uint8Array(part)));
    while (!placing.step());
    return placing.value;
  }
  const inSteps = async (): Promise<ToolValue> => {
    const parts: Uint8Array[] = [];
    for (const part of beside.parts) parts.push(await copyTimeSliced(part, signal));
    const placing = place(parts);
    await runTimeSliced(() => placing.step(), signal, payer);
    return placing.value;
  };
  return inSteps();
}

const toBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

/** The same text with base64 in the place of marks: what a model would be shown, and what a JSON Schema is about. */
export function withBase64(text: string, beside: BinaryAttachments): string {
  const begin = `"${beside.mark}`;
  let shown = "";
  let from = 0;
  for (let at = text.indexOf(begin); at >= 0; at = text.indexOf(begin, at + 1)) {
    const end = text.indexOf('"', at + 1);
    const index = indexIn(text.slice(at + 1, end), beside);
    if (index === undefined) continue;
    shown += `${text.slice(from, at + 1)}${toBase64(beside.parts[index] as Uint8Array)}`;
    from = end;
  }
  return shown + text.slice(from);
}

/** As a model is shown it, and as MCP has it: bytes are base64 (RFC 4648), `contentEncoding: "base64"` in JSON Schema's words. */
export function toJson(value: ToolValue): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  if (isUint8Array(value)) return toBase64(value);
  if (Array.isArray(value)) return value.map(toJson);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, toJson(each as ToolValue)]));
}

/** A value as JSON text, and the bytes in it. */
export interface TextWithBytes {
  readonly text: string | undefined;
  readonly bytes: BinaryAttachments | undefined;
}

/** Values that are looked at before the text is made: most callers have their bytes near the top. */
const LOOKED_AT = 64;

/** Bytes in JSON text as JSON.stringify makes it: an object of indices, an empty one, or what a Buffer's own `toJSON` gives. */
const TELL_TALE = /\{"0":|\{\}|"type":"Buffer"/;

const isBytes = (value: unknown): value is Uint8Array | ArrayBuffer =>
  isUint8Array(value) || value instanceof ArrayBuffer;

function holdsBytesNearTop(value: unknown): boolean {
  const open: unknown[] = [value];
  for (let index = 0; index < open.length && index < LOOKED_AT; index += 1) {
    const each = open[index];
    if (isBytes(each)) return true;
    if (typeof each !== "object" || each === null) continue;
    for (const key of Object.keys(each)) {
      if (open.length >= LOOKED_AT) break;
      open.push((each as { readonly [key: string]: unknown })[key]);
    }
  }
  return false;
}

/** False where it cannot be read: JSON.stringify says so, or a `toJSON` that it asks has another answer. */
function looksBinary(value: unknown): boolean {
  try {
    return holdsBytesNearTop(value);
  } catch {
    return false;
  }
}

/** A caller's own text may begin with the mark: then another one is tried, so often. */
const MARKS = 8;

/** Marks in the place of bytes. Slower than JSON.stringify alone: for values that hold some. */
function markBytes(value: unknown, limits: ValueLimits | undefined): TextWithBytes {
  for (let attempt = 0; attempt < MARKS; attempt += 1) {
    const mark = attempt === 0 ? "glovebox:bytes:" : `glovebox:bytes:${attempt}:`;
    const parts: Uint8Array[] = [];
    const counter = limits && new SizeCounter(limits);
    const text = JSON.stringify(value, function (this: { readonly [key: string]: unknown }, key, each: unknown) {
      const own = typeof each === "object" && each !== null ? this[key] : each;
      if (!isBytes(own)) {
        if (counter !== undefined) countWritten(counter, this, key, each);
        return each;
      }
      counter?.add(own.byteLength, 1);
      parts.push(own instanceof ArrayBuffer ? new Uint8Array(own) : own);
      return `${mark}${parts.length - 1}`;
    }) as string | undefined;
    if (text === undefined || parts.length === 0) return { text, bytes: undefined };
    if (parts.length > MAX_BYTES_VALUES) throw new RangeError(`Expected at most ${MAX_BYTES_VALUES} values of bytes`);
    if (text.split(`"${mark}`).length - 1 === parts.length) return { text, bytes: { mark, parts } };
  }
  throw new RangeError("Expected text that can be told from bytes");
}

/** What is smaller is made text whatever its limit is, so that the error can say how large it is. */
const ALWAYS_WRITTEN = 256 * 1024;

/** As many as the limits of a call let through. */
const MAX_VALUES = 1_250_000;

const toStops = ({ bytes = Number.POSITIVE_INFINITY, values = MAX_VALUES }: Partial<ValueLimits>): ValueLimits => ({
  bytes: Math.max(bytes, ALWAYS_WRITTEN),
  values: Math.max(values, ALWAYS_WRITTEN),
});

/**
 * A value of this process as JSON text, and the bytes in it (Uint8Array, Buffer, ArrayBuffer) beside it. Values without bytes cost what
 * JSON.stringify costs, and a quicker look at them before. Throws what JSON.stringify throws.
 * @param limits where to stop; the text of what is not much larger than a small limit is made, so it has to be measured still
 * @throws {ValueTooLargeError} where it stopped
 */
export function toTextWithBytes(value: unknown, limits?: Partial<ValueLimits>): TextWithBytes {
  const stops = limits && toStops(limits);
  const isExotic = stops !== undefined && checkValueSize(value, stops);
  if (isExotic || looksBinary(value)) return markBytes(value, stops);
  const text = JSON.stringify(value) as string | undefined;
  return text !== undefined && TELL_TALE.test(text) ? markBytes(value, stops) : { text, bytes: undefined };
}

/** The same as JSON.stringify gives it, where nobody expects bytes. Throws as {@link toTextWithBytes}. */
export function toBoundedJson(value: unknown, limits: ValueLimits): string | undefined {
  const stops = { ...toStops(limits), values: limits.values };
  if (!checkValueSize(value, stops)) return JSON.stringify(value);
  const counter = new SizeCounter(stops);
  return JSON.stringify(value, function (this: unknown, key, each: unknown) {
    countWritten(counter, this, key, each);
    return each;
  });
}

/** As a frame has it. */
export function toBesideParts({ mark, parts }: BinaryAttachments): [header: string, data: Uint8Array] {
  const header: BytesHeader = { mark, lengths: parts.map((part) => part.byteLength) };
  return [JSON.stringify(header), Buffer.concat(parts)];
}

export const sizeOfBytes = (beside: BinaryAttachments | undefined): number =>
  beside?.parts.reduce((sum, part) => sum + part.byteLength, 0) ?? 0;
