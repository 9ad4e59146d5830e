// Serializes values that contain bytes: each Uint8Array or ArrayBuffer becomes a placeholder in the JSON text, and the bytes are attached.
// Deserializing replaces the placeholders with bytes.
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

/** The bytes of a value, as they leave the guest. */
export interface PackedBytes {
  /** A BytesHeader as JSON text. */
  readonly header: string;
  readonly data: Uint8Array;
}

export interface GuestTextWithBytes {
  /** Undefined if the value has no JSON form. */
  readonly text: string | undefined;
  readonly bytes: PackedBytes | undefined;
}

/** Maximum number of marks to try. A mark is unusable if a string of the value starts with it. */
const MAX_MARK_ATTEMPTS = 8;

interface MarkedPrototype {
  readonly prototype: { toJSON: unknown };
  /** Value of `toJSON` that the tool has set. */
  original: unknown;
}
/**
 * Prototypes whose `toJSON` finds bytes during JSON.stringify. Values without bytes cause no extra cost. A replacer function would make
 * JSON.stringify take three to six times as long (measured).
 */
const markedPrototypes: MarkedPrototype[] = [];

/** Whether a value is being serialized. */
let isMarking = false;
/** Bytes found in that value. */
let found: Uint8Array[] | undefined;
let mark = "";

/** Returns the bytes of a Uint8Array or an ArrayBuffer, or undefined for other values. */
function bytesOf(value: unknown): Uint8Array | undefined {
  try {
    if (TypedArrayPrototypeGetTag(value) === "Uint8Array") return value as Uint8Array;
    if (ArrayBufferPrototypeGetByteLength(value) === 0) return new Uint8ArrayConstructor(0);
    return new Uint8ArrayConstructor(value as ArrayBuffer);
  } catch {
    return undefined;
  }
}

/** Records bytes and returns their placeholder. Returns other values unchanged. */
function replaceBytes(value: unknown): unknown {
  const bytes = isMarking ? bytesOf(value) : undefined;
  if (bytes === undefined) return value;
  found ??= [];
  append(found, bytes);
  return mark + StringConstructor(found.length - 1);
}

function toPlaceholder(this: unknown): unknown {
  return replaceBytes(this);
}

/** Treats all values with this prototype as bytes. While a value is serialized, the prototype's own `toJSON` is replaced. */
export function markBytesOf(prototype: object): void {
  append(markedPrototypes, { prototype: prototype as { toJSON: unknown }, original: undefined });
}

/** Installs the serialization of bytes. The `toJSON` properties stay without a value, since adding and removing them each time is slow. */
export function installBytesText(): void {
  defineValue(Uint8ArrayPrototype, "toJSON", undefined, false);
  defineValue(ArrayBufferPrototype, "toJSON", undefined, false);
  markBytesOf(Uint8ArrayPrototype);
  markBytesOf(ArrayBufferPrototype);
}

/** JSON.stringify with placeholders for bytes. If a prototype is frozen, `toJSON` cannot be set, and a replacer checks each value. */
function stringify(value: unknown): string | undefined {
  let replacedCount = 0;
  isMarking = true;
  try {
    try {
      for (; replacedCount < markedPrototypes.length; replacedCount += 1) {
        const marked = markedPrototypes[replacedCount] as MarkedPrototype;
        marked.original = marked.prototype.toJSON;
        marked.prototype.toJSON = toPlaceholder;
      }
    } catch {
      return JSONStringify(value, (_key, each: unknown) => replaceBytes(each));
    }
    return JSONStringify(value);
  } finally {
    isMarking = false;
    while (replacedCount > 0) {
      replacedCount -= 1;
      const marked = markedPrototypes[replacedCount] as MarkedPrototype;
      marked.prototype.toJSON = marked.original;
    }
  }
}

/** Counts `"` followed by the mark. An escaped quote inside a string is counted too; the excess only causes another mark to be tried. */
function countMarks(text: string): number {
  const quotedMark = `"${mark}`;
  let count = 0;
  for (
    let at = StringPrototypeIndexOf(text, quotedMark);
    at >= 0;
    at = StringPrototypeIndexOf(text, quotedMark, at + 1)
  ) {
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
  const list = `[${joinNumbers(lengths)}]`;
  return { header: `{"mark":${JSONStringify(mark)},"lengths":${list}}`, data };
}

/** Joins numbers with commas. JSON.stringify would call a `toJSON` that the tool has put on Array.prototype. */
function joinNumbers(numbers: readonly number[]): string {
  let text = "";
  for (let index = 0; index < numbers.length; index += 1) {
    text += (index === 0 ? "" : ",") + StringConstructor(numbers[index]);
  }
  return text;
}

/**
 * Serializes a value to JSON text and the bytes in it.
 * @throws {TypeError} if the value contains too many byte values. Errors of JSON.stringify are thrown, too
 */
export function toTextWithBytes(value: unknown): GuestTextWithBytes {
  for (let attempt = 0; attempt < MAX_MARK_ATTEMPTS; attempt += 1) {
    found = undefined;
    mark = attempt === 0 ? "glovebox:bytes:" : `glovebox:bytes:${attempt}:`;
    const text = stringify(value);
    const parts = found as Uint8Array[] | undefined;
    if (text === undefined || parts === undefined) return { text, bytes: undefined };
    found = undefined;
    if (parts.length > MAX_BYTES_VALUES) {
      throw new TypeErrorConstructor(`more than ${MAX_BYTES_VALUES} byte values`);
    }
    if (countMarks(text) === parts.length) return { text, bytes: pack(parts) };
  }
  throw new TypeErrorConstructor("text that cannot be told from bytes");
}

/** Parses JSON text and replaces its placeholders with new byte arrays. */
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
      const member = holder[key];
      const restored = restore(member);
      if (restored !== member) defineValue(holder, key, restored);
    }
    return value;
  };
  return restore(JSONParse(text));
}
