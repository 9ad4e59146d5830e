// v8.Serializer: writes V8's serialization format (version 15) as Node does. V8 chooses some tags by its internal kind of an array: whole numbers
// in an array of doubles, and arrays that had holes, may be written with other bytes than in Node. Both read the same.
import { Buffer } from "../buffer/node-buffer.ts";
import { brandOf } from "../shared/brand.ts";
import { invalidArgument } from "../shared/node-error.ts";
import { ERROR_CLASSES, ERROR_TAGS, FORMAT_VERSION, REGEXP_FLAGS, TAGS, VIEWS } from "./v8-format.ts";
import { types } from "./value-types.ts";

const MIN_INT32 = -(2 ** 31);
const MAX_INT32 = 2 ** 31 - 1;
const MAX_ARRAY_INDEX = 2 ** 32 - 2;
const INITIAL_BYTES = 256;

type View = ArrayBufferView;
interface ErrorText {
  readonly message?: unknown;
  readonly stack?: unknown;
}

/** Returns whether a key is an array index as V8 writes it: a number instead of text. */
function isIndex(key: string): boolean {
  const index = Number(key);
  return Number.isInteger(index) && index >= 0 && index <= MAX_ARRAY_INDEX && String(index) === key;
}

/** Names a value as V8 does in its messages. */
function nameOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  const name: unknown = (value as { readonly constructor?: { readonly name?: unknown } }).constructor?.name;
  return `#<${typeof name === "string" && name !== "" ? name : "Object"}>`;
}

/** Tags of objects whose state cannot be copied. */
const UNCLONEABLE =
  /^\[object (?:Promise|Weak(?:Map|Set|Ref)|(?:Async)?Generator|SharedArrayBuffer|WebAssembly\.\w+|FinalizationRegistry)\]$/;

export class Serializer {
  #bytes = new Uint8Array(INITIAL_BYTES);
  #length = 0;
  #areViewsHostObjects = false;
  #ids = new Map<object, number>();
  readonly #transferred = new Map<ArrayBuffer, number>();

  #reserve(count: number): number {
    const start = this.#length;
    if (start + count > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.#bytes.length, start + count));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#length += count;
    return start;
  }

  #byte(value: number): void {
    const at = this.#reserve(1);
    this.#bytes[at] = value;
  }

  #tag(tag: string): void {
    this.#byte(tag.charCodeAt(0));
  }

  /** Writes a whole number below 2 ** 53 in groups of seven bits, the lowest first. */
  #varint(value: number): void {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) this.#byte((rest % 128) + 128);
    this.#byte(rest);
  }

  #raw(bytes: Uint8Array): void {
    const at = this.#reserve(bytes.byteLength);
    this.#bytes.set(bytes, at);
  }

  #double(value: number): void {
    const at = this.#reserve(8);
    new DataView(this.#bytes.buffer).setFloat64(at, value, true);
  }

  writeHeader(): void {
    this.#byte(0xff);
    this.#byte(FORMAT_VERSION);
  }

  writeValue(value: unknown): boolean {
    this.#value(value);
    return true;
  }

  releaseBuffer(): Buffer {
    const released = Buffer.from(this.#bytes.buffer, 0, this.#length);
    this.#bytes = new Uint8Array(INITIAL_BYTES);
    this.#length = 0;
    this.#ids = new Map();
    return released;
  }

  transferArrayBuffer(id: number, buffer: ArrayBuffer): void {
    if (!types.isAnyArrayBuffer(buffer)) {
      throw invalidArgument("arrayBuffer", "an instance of ArrayBuffer or SharedArrayBuffer", buffer);
    }
    this.#transferred.set(buffer, id >>> 0);
  }

  writeUint32(value: number): void {
    this.#varint(value >>> 0);
  }

  writeUint64(high: number, low: number): void {
    let rest = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
    for (; rest >= 128n; rest >>= 7n) this.#byte(Number(rest & 127n) + 128);
    this.#byte(Number(rest));
  }

  writeDouble(value: number): void {
    this.#double(Number(value));
  }

  writeRawBytes(source: View): void {
    if (!ArrayBuffer.isView(source)) throw viewExpected("source");
    this.#raw(new Uint8Array(source.buffer, source.byteOffset, source.byteLength));
  }

  _setTreatArrayBufferViewsAsHostObjects(areHostObjects: boolean): void {
    this.#areViewsHostObjects = Boolean(areHostObjects);
  }

  /** Class of the errors for values that cannot be copied. Subclasses may replace it. */
  declare _getDataCloneError: new (
    message: string,
  ) => Error;

  #fail(name: string): never {
    throw new this._getDataCloneError(`${name} could not be cloned.`);
  }

  #value(value: unknown): void {
    switch (typeof value) {
      case "undefined":
        this.#tag(TAGS.undefined);
        break;
      case "boolean":
        this.#tag(value ? TAGS.true : TAGS.false);
        break;
      case "number":
        this.#number(value);
        break;
      case "bigint":
        this.#tag(TAGS.bigint);
        this.#bigint(value);
        break;
      case "string":
        this.#text(value);
        break;
      case "object":
        if (value === null) this.#tag(TAGS.null);
        else this.#object(value);
        break;
      default:
        this.#fail(nameOf(value));
    }
  }

  #number(value: number): void {
    if (Number.isInteger(value) && value >= MIN_INT32 && value <= MAX_INT32 && !Object.is(value, -0)) {
      this.#tag(TAGS.int32);
      this.#varint(((value << 1) ^ (value >> 31)) >>> 0);
      return;
    }
    this.#tag(TAGS.double);
    this.#double(value);
  }

  /** Writes sign and length, then the digits of 64 bits each. */
  #bigint(value: bigint): void {
    let rest = value < 0n ? -value : value;
    const digits: bigint[] = [];
    for (; rest > 0n; rest >>= 64n) digits.push(rest & 0xffffffffffffffffn);
    this.#varint((value < 0n ? 1 : 0) + 16 * digits.length);
    for (const digit of digits) {
      const at = this.#reserve(8);
      new DataView(this.#bytes.buffer).setBigUint64(at, digit, true);
    }
  }

  #text(text: string): void {
    let isLatin1 = true;
    for (let index = 0; isLatin1 && index < text.length; index += 1) isLatin1 = text.charCodeAt(index) < 256;
    const byteLength = isLatin1 ? text.length : 2 * text.length;
    // The characters of a two-byte text begin at an even offset.
    const start = this.#length + 1 + varintLength(byteLength);
    if (!isLatin1 && start % 2 === 1) this.#tag(TAGS.padding);
    this.#tag(isLatin1 ? TAGS.oneByteText : TAGS.twoByteText);
    this.#varint(byteLength);
    const at = this.#reserve(byteLength);
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      if (isLatin1) this.#bytes[at + index] = unit;
      else {
        this.#bytes[at + 2 * index] = unit & 0xff;
        this.#bytes[at + 2 * index + 1] = unit >> 8;
      }
    }
  }

  #object(value: object): void {
    const known = this.#ids.get(value);
    if (known !== undefined) {
      this.#tag(TAGS.reference);
      this.#varint(known);
      return;
    }
    const isHostObject = ArrayBuffer.isView(value) && this.#areViewsHostObjects;
    // The buffer of a view precedes the view.
    if (ArrayBuffer.isView(value) && !isHostObject) this.#object(value.buffer);
    this.#ids.set(value, this.#ids.size);
    if (isHostObject) this.#hostObject(value);
    else if (ArrayBuffer.isView(value)) this.#view(value);
    else if (Array.isArray(value)) this.#array(value);
    else this.#branded(value);
  }

  #hostObject(view: View): void {
    this.#tag(TAGS.hostObject);
    const write = (this as { _writeHostObject?: (view: View) => void })._writeHostObject;
    if (typeof write !== "function") this.#fail(Object.prototype.toString.call(view));
    write.call(this, view);
  }

  #view(view: View): void {
    const [tag] = VIEWS.find(([, name]) => name === nameOfView(view)) ?? this.#fail(nameOf(view));
    this.#tag(TAGS.view);
    this.#tag(tag);
    this.#varint(view.byteOffset);
    this.#varint(view.byteLength);
    // Flags: neither backed by a resizable buffer nor tracking its length.
    this.#varint(0);
  }

  #array(items: readonly unknown[]): void {
    const keys = Object.keys(items);
    const isDense = items.length > 0 && items.length <= keys.length && keys[items.length - 1] === `${items.length - 1}`;
    const { length } = items;
    this.#tag(isDense || length === 0 ? TAGS.denseArray : TAGS.sparseArray);
    this.#varint(length);
    const isWritten = isDense || length === 0;
    for (let index = 0; isDense && index < length; index += 1) {
      if (Object.hasOwn(items, index)) this.#value(items[index]);
      else this.#tag(TAGS.hole);
    }
    const count = this.#members(items, isDense ? keys.slice(length) : keys);
    this.#tag(isWritten ? TAGS.endOfDenseArray : TAGS.endOfSparseArray);
    this.#varint(count);
    this.#varint(length);
  }

  /** Returns the number of members. Getters may have deleted some of the keys. */
  #members(value: object, keys: readonly string[]): number {
    let count = 0;
    for (const key of keys) {
      if (!Object.hasOwn(value, key)) continue;
      const member = (value as { readonly [key: string]: unknown })[key];
      if (isIndex(key)) this.#number(Number(key));
      else this.#text(key);
      this.#value(member);
      count += 1;
    }
    return count;
  }

  #branded(value: object): void {
    switch (brandOf(value)) {
      case "ArrayBuffer":
        this.#buffer(value as ArrayBuffer);
        break;
      case "Date":
        this.#tag(TAGS.date);
        this.#double(Date.prototype.getTime.call(value));
        break;
      case "RegExp":
        this.#regExp(value as RegExp);
        break;
      case "Map":
        this.#map(value as Map<unknown, unknown>);
        break;
      case "Set":
        this.#set(value as Set<unknown>);
        break;
      case "Error":
        this.#error(value as Error);
        break;
      case "Boolean":
        this.#tag(Boolean.prototype.valueOf.call(value) ? TAGS.trueObject : TAGS.falseObject);
        break;
      case "Number":
        this.#tag(TAGS.numberObject);
        this.#double(Number.prototype.valueOf.call(value));
        break;
      case "BigInt":
        this.#tag(TAGS.bigintObject);
        this.#bigint(BigInt.prototype.valueOf.call(value));
        break;
      case "String":
        this.#tag(TAGS.stringObject);
        this.#text(String.prototype.valueOf.call(value));
        break;
      case "Symbol":
        this.#fail("Object(Symbol())");
        break;
      default:
        this.#plain(value);
        break;
    }
  }

  #plain(value: object): void {
    if (UNCLONEABLE.test(Object.prototype.toString.call(value))) this.#fail(nameOf(value));
    this.#tag(TAGS.object);
    const count = this.#members(value, Object.keys(value));
    this.#tag(TAGS.endOfObject);
    this.#varint(count);
  }

  #buffer(buffer: ArrayBuffer): void {
    const id = this.#transferred.get(buffer);
    if (id !== undefined) {
      this.#tag(TAGS.transferredBuffer);
      this.#varint(id);
      return;
    }
    if (buffer.detached) this.#fail("An ArrayBuffer is detached and");
    this.#tag(buffer.resizable ? TAGS.resizableBuffer : TAGS.buffer);
    this.#varint(buffer.byteLength);
    if (buffer.resizable) this.#varint(buffer.maxByteLength);
    this.#raw(new Uint8Array(buffer));
  }

  #regExp({ source, flags }: RegExp): void {
    this.#tag(TAGS.regExp);
    this.#text(source);
    let bits = 0;
    for (const [flag, bit] of REGEXP_FLAGS) if (flags.includes(flag)) bits += bit;
    this.#varint(bits);
  }

  #map(map: Map<unknown, unknown>): void {
    // Getters of a key or value may change the map.
    const entries = [...Map.prototype.entries.call(map)] as [unknown, unknown][];
    this.#tag(TAGS.map);
    for (const [key, value] of entries) {
      this.#value(key);
      this.#value(value);
    }
    this.#tag(TAGS.endOfMap);
    this.#varint(2 * entries.length);
  }

  #set(set: Set<unknown>): void {
    const items = [...Set.prototype.values.call(set)] as unknown[];
    this.#tag(TAGS.set);
    for (const item of items) this.#value(item);
    this.#tag(TAGS.endOfSet);
    this.#varint(items.length);
  }

  #error(error: Error): void {
    this.#tag(TAGS.error);
    const tag = Object.hasOwn(ERROR_CLASSES, error.name) ? ERROR_CLASSES[error.name] : undefined;
    if (tag !== undefined) this.#tag(tag);
    const { message } = Object.getOwnPropertyDescriptors(error as ErrorText);
    if (message !== undefined) {
      this.#tag(ERROR_TAGS.message);
      this.#text(String(error.message));
    }
    const { stack } = error as ErrorText;
    if (typeof stack === "string") {
      this.#tag(ERROR_TAGS.stack);
      this.#text(stack);
    }
    if (Object.hasOwn(error, "cause")) {
      this.#tag(ERROR_TAGS.cause);
      this.#value(error.cause);
    }
    this.#tag(ERROR_TAGS.end);
  }
}
Object.defineProperty(Serializer.prototype, "_getDataCloneError", { value: Error, writable: true, configurable: true });

const varintLength = (value: number): number => {
  let length = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length += 1;
  return length;
};

export const nameOfView = (view: View): string => Object.prototype.toString.call(view).slice("[object ".length, -1);

export const viewExpected = (name: string): Error =>
  Object.assign(new TypeError(`${name} must be a TypedArray or a DataView`), { code: "ERR_INVALID_ARG_TYPE" });
