// Bytes inside a JSON value: each leaves a mark in the text and travels beside it. The other way round, marks become bytes again.
import { type BytesHeader, MAX_BYTES_VALUES } from "../protocol/guest-messages.ts";
import {
  ArrayBufferPrototype,
  ArrayBufferPrototypeGetByteLength,
  append,
  defineValue,
  JSONParse,
  JSONStringify,
  ObjectKeys,
  StringConstructor,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
  TypedArrayPrototypeGetLength,
  TypedArrayPrototypeGetTag,
  TypedArrayPrototypeSet,
  TypedArrayPrototypeSlice,
  TypeErrorConstructor,
  Uint8ArrayConstructor,
  Uint8ArrayPrototype,
} from "./primordials.ts";

/** Bytes as they leave the guest. */
export interface PackedBytes {
  /** A BytesHeader as JSON text. */
  readonly header: string;
  readonly data: Uint8Array;
}

export interface TextWithBytes {
  /** Undefined for what has no JSON. */
  readonly text: string | undefined;
  readonly bytes: PackedBytes | undefined;
}

/** A tool's own text may begin with the mark: then another one is tried, so often. */
const MARKS = 8;

interface MarkedPrototype {
  readonly prototype: { toJSON: unknown };
  /** What the tool has there. */
  before: unknown;
}
/** JSON.stringify asks their `toJSON`: that is how bytes are found at no cost for values that hold none. */
const markedPrototypes: MarkedPrototype[] = [];

/** A value is being made text. */
let isMarking = false;
/** What has been found in it. */
let found: Uint8Array[] | undefined;
let mark = "";

/** The bytes of a Uint8Array, or an ArrayBuffer; undefined for anything else. */
function bytesOf(value: unknown): Uint8Array | undefined {
  try {
    if (TypedArrayPrototypeGetTag(value) === "Uint8Array") return value as Uint8Array;
    if (ArrayBufferPrototypeGetByteLength(value) === 0) return new Uint8ArrayConstructor(0);
    return new Uint8ArrayConstructor(value as ArrayBuffer);
  } catch {
    return undefined;
  }
}

function leaveMark(value: unknown): unknown {
  const bytes = isMarking ? bytesOf(value) : undefined;
  if (bytes === undefined) return value;
  found ??= [];
  append(found, bytes);
  return mark + StringConstructor(found.length - 1);
}

function toMark(this: unknown): unknown {
  return leaveMark(this);
}

/** Values with this prototype are bytes wherever they are in an output. Their prototype's `toJSON` is put aside for the moment. */
export function markBytesOf(prototype: object): void {
  append(markedPrototypes, { prototype: prototype as { toJSON: unknown }, before: undefined });
}

/** The properties stay, without a value: to add and take them away for each output would cost. */
export function installBytesText(): void {
  defineValue(Uint8ArrayPrototype, "toJSON", undefined, false);
  defineValue(ArrayBufferPrototype, "toJSON", undefined, false);
  markBytesOf(Uint8ArrayPrototype);
  markBytesOf(ArrayBufferPrototype);
}

/** JSON.stringify with marks in the place of bytes. A frozen prototype takes no `toJSON`: then each value is looked at. */
function stringify(value: unknown): string | undefined {
  let areMarked = 0;
  isMarking = true;
  try {
    try {
      for (; areMarked < markedPrototypes.length; areMarked += 1) {
        const marked = markedPrototypes[areMarked] as MarkedPrototype;
        marked.before = marked.prototype.toJSON;
        marked.prototype.toJSON = toMark;
      }
    } catch {
      return JSONStringify(value, (_key, each: unknown) => leaveMark(each));
    }
    return JSONStringify(value);
  } finally {
    isMarking = false;
    while (areMarked > 0) {
      areMarked -= 1;
      const marked = markedPrototypes[areMarked] as MarkedPrototype;
      marked.prototype.toJSON = marked.before;
    }
  }
}

/** How often the text has a string that begins with the mark; `\"` before it would be one too many, and then another mark is tried. */
function countMarks(text: string): number {
  const needle = `"${mark}`;
  let count = 0;
  for (let at = StringPrototypeIndexOf(text, needle); at >= 0; at = StringPrototypeIndexOf(text, needle, at + 1)) {
    count += 1;
  }
  return count;
}

function pack(parts: readonly Uint8Array[]): PackedBytes {
  const lengths: number[] = [];
  let total = 0;
  for (let index = 0; index < parts.length; index += 1) {
    const length = TypedArrayPrototypeGetLength(parts[index]);
    append(lengths, length);
    total += length;
  }
  const data = new Uint8ArrayConstructor(total);
  let offset = 0;
  for (let index = 0; index < parts.length; index += 1) {
    TypedArrayPrototypeSet(data, parts[index] as Uint8Array, offset);
    offset += lengths[index] as number;
  }
  const list = `[${joined(lengths)}]`;
  return { header: `{"mark":${JSONStringify(mark)},"lengths":${list}}`, data };
}

/** By hand: a list of the prelude's own would be asked for the guest's `toJSON`. */
function joined(numbers: readonly number[]): string {
  let text = "";
  for (let index = 0; index < numbers.length; index += 1) {
    text += (index === 0 ? "" : ",") + StringConstructor(numbers[index]);
  }
  return text;
}

/** A value as JSON text and the bytes in it. Throws what JSON.stringify throws, and a TypeError for too many values of bytes. */
export function toTextWithBytes(value: unknown): TextWithBytes {
  for (let attempt = 0; attempt < MARKS; attempt += 1) {
    found = undefined;
    mark = attempt === 0 ? "glovebox:bytes:" : `glovebox:bytes:${attempt}:`;
    const text = stringify(value);
    const parts = found as Uint8Array[] | undefined;
    if (text === undefined || parts === undefined) return { text, bytes: undefined };
    found = undefined;
    if (parts.length > MAX_BYTES_VALUES) {
      throw new TypeErrorConstructor(`more than ${MAX_BYTES_VALUES} values of bytes`);
    }
    if (countMarks(text) === parts.length) return { text, bytes: pack(parts) };
  }
  throw new TypeErrorConstructor("text that cannot be told from bytes");
}

/** What the text says, with bytes of its own in the place of marks. The text is JSON. */
export function fromTextWithBytes(text: string, { header, data }: PackedBytes): unknown {
  const { mark: ownMark, lengths } = JSONParse(header) as BytesHeader;
  const parts: Uint8Array[] = [];
  let offset = 0;
  for (let index = 0; index < lengths.length; index += 1) {
    const end = offset + (lengths[index] as number);
    append(parts, TypedArrayPrototypeSlice(data, offset, end));
    offset = end;
  }
  const restore = (value: unknown): unknown => {
    if (typeof value === "string") {
      if (value.length <= ownMark.length || StringPrototypeSlice(value, 0, ownMark.length) !== ownMark) return value;
      return parts[StringPrototypeSlice(value, ownMark.length) as unknown as number] ?? value;
    }
    if (typeof value !== "object" || value === null) return value;
    const holder = value as { [key: string]: unknown };
    const keys = ObjectKeys(holder);
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index] as string;
      const before = holder[key];
      const restored = restore(before);
      if (restored !== before) defineValue(holder, key, restored);
    }
    return value;
  };
  return restore(JSONParse(text));
}
