// v8.Deserializer: reads V8's serialization format up to version 15. The bytes may come from anywhere, so each length is checked.
import { Buffer } from "../buffer/node-buffer.ts";
import {
  ERROR_CLASSES,
  ERROR_TAGS,
  FIRST_VERSION_WITH_VIEW_FLAGS,
  FORMAT_VERSION,
  REGEXP_FLAGS,
  TAGS,
  VIEWS,
} from "./v8-format.ts";
import { viewExpected } from "./v8-serializer.ts";

const INVALID = "Unable to deserialize cloned data.";
const INVALID_VERSION = "Unable to deserialize cloned data due to invalid or unsupported version.";
/** Versions that Node reads begin with this one. Earlier ones have other objects and text. */
const FIRST_VERSION = 13;

type Members = { [key: PropertyKey]: unknown };
type ViewClass = new (buffer: ArrayBuffer, offset?: number, length?: number) => ArrayBufferView;

const fail = (message = INVALID): never => {
  throw new Error(message);
};

const classOf = (name: string): unknown => (globalThis as unknown as Members)[name];

export class Deserializer {
  readonly buffer: ArrayBufferView;
  readonly #bytes: Uint8Array;
  readonly #data: DataView;
  #position = 0;
  #version = 0;
  readonly #objects: unknown[] = [];
  readonly #transferred = new Map<number, ArrayBuffer>();
  declare _readHostObject?: () => object;

  constructor(buffer: ArrayBufferView) {
    if (!ArrayBuffer.isView(buffer)) throw viewExpected("buffer");
    this.buffer = buffer;
    this.#bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    this.#data = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }

  /** Reserves bytes and returns their position. */
  #take(count: number, message?: string): number {
    const start = this.#position;
    if (count > this.#bytes.length - start) return fail(message);
    this.#position += count;
    return start;
  }

  #byte(message?: string): number {
    return this.#bytes[this.#take(1, message)] as number;
  }

  /** Reads a number in groups of seven bits, the lowest first. */
  #uint32(message?: string): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte(message);
      if (shift < 32) value |= (byte & 127) << shift;
      if (byte < 128) return value >>> 0;
    }
  }

  #double(message?: string): number {
    return this.#data.getFloat64(this.#take(8, message), true);
  }

  readHeader(): boolean {
    if (this.#bytes[this.#position] !== 0xff) return fail(INVALID_VERSION);
    this.#position += 1;
    this.#version = this.#uint32(INVALID_VERSION);
    if (this.#version > FORMAT_VERSION || this.#version < FIRST_VERSION) return fail(INVALID_VERSION);
    return true;
  }

  readValue(): unknown {
    return this.#value();
  }

  getWireFormatVersion(): number {
    return this.#version;
  }

  transferArrayBuffer(id: number, buffer: ArrayBuffer): void {
    this.#transferred.set(id >>> 0, buffer);
  }

  readUint32(): number {
    return this.#uint32("ReadUint32() failed");
  }

  readUint64(): [number, number] {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte("ReadUint64() failed");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return [Number(BigInt.asUintN(32, value >> 32n)), Number(BigInt.asUintN(32, value))];
    }
  }

  readDouble(): number {
    return this.#double("ReadDouble() failed");
  }

  /** Returns the position of the bytes in `buffer`. */
  _readRawBytes(length: number): number {
    return this.#take(length >>> 0, "ReadRawBytes() failed");
  }

  readRawBytes(length: number): Buffer {
    const offset = this._readRawBytes(length);
    return Buffer.from(this.#bytes.buffer as ArrayBuffer, this.#bytes.byteOffset + offset, length >>> 0);
  }

  #tag(): string {
    for (;;) {
      const tag = String.fromCharCode(this.#byte());
      if (tag !== TAGS.padding) return tag;
    }
  }

  #peek(): string {
    while (this.#bytes[this.#position] === 0) this.#position += 1;
    const byte = this.#bytes[this.#position];
    return byte === undefined ? fail() : String.fromCharCode(byte);
  }

  #value(): unknown {
    const value = this.#untracked();
    // V8 writes a buffer before the first of its views.
    return value instanceof ArrayBuffer && this.#bytes[this.#position] === TAGS.view.charCodeAt(0)
      ? this.#view(value)
      : value;
  }

  #untracked(): unknown {
    const tag = this.#tag();
    switch (tag) {
      case TAGS.objectCount:
        this.#uint32();
        return this.#untracked();
      case TAGS.undefined:
        return undefined;
      case TAGS.null:
        return null;
      case TAGS.true:
        return true;
      case TAGS.false:
        return false;
      case TAGS.int32: {
        const value = this.#uint32();
        return (value >>> 1) ^ -(value & 1);
      }
      case TAGS.uint32:
        return this.#uint32();
      case TAGS.double:
        return this.#double();
      case TAGS.bigint:
        return this.#bigint();
      case TAGS.utf8Text:
      case TAGS.oneByteText:
      case TAGS.twoByteText:
        return this.#text(tag);
      case TAGS.reference:
        return this.#reference();
      default:
        return this.#object(tag);
    }
  }

  #reference(): unknown {
    const id = this.#uint32();
    return id < this.#objects.length ? this.#objects[id] : fail();
  }

  #object(tag: string): unknown {
    switch (tag) {
      case TAGS.object: {
        const target = this.#keep({});
        this.#expect(this.#members(target, TAGS.endOfObject));
        return target;
      }
      case TAGS.denseArray:
        return this.#denseArray();
      case TAGS.sparseArray:
        return this.#sparseArray();
      case TAGS.date:
        return this.#keep(new Date(this.#double()));
      case TAGS.trueObject:
        return this.#keep(Object(true) as object);
      case TAGS.falseObject:
        return this.#keep(Object(false) as object);
      case TAGS.numberObject:
        return this.#keep(Object(this.#double()) as object);
      case TAGS.bigintObject:
        return this.#keep(Object(this.#bigint()) as object);
      case TAGS.stringObject:
        return this.#keep(Object(this.#text(this.#tag())) as object);
      case TAGS.regExp:
        return this.#regExp();
      case TAGS.map:
        return this.#map();
      case TAGS.set:
        return this.#set();
      case TAGS.buffer:
        return this.#buffer(false);
      case TAGS.resizableBuffer:
        return this.#buffer(true);
      case TAGS.transferredBuffer:
        return this.#keep(this.#transferred.get(this.#uint32()) ?? fail());
      case TAGS.error:
        return this.#error();
      case TAGS.hostObject:
        return this.#hostObject();
      default:
        return fail();
    }
  }

  #keep<Kept extends object>(object: Kept): Kept {
    this.#objects.push(object);
    return object;
  }

  /** Checks a number of members, or a length, against the number that was read. */
  #expect(count: number): void {
    if (this.#uint32() !== count) fail();
  }

  #text(tag: string): string {
    const length = this.#uint32();
    const start = this.#take(length);
    const text = Buffer.from(this.#bytes.buffer as ArrayBuffer, this.#bytes.byteOffset + start, length);
    if (tag === TAGS.oneByteText) return text.toString("latin1");
    if (tag === TAGS.utf8Text) return text.toString("utf8");
    return tag === TAGS.twoByteText && length % 2 === 0 ? text.toString("utf16le") : fail();
  }

  #bigint(): bigint {
    const bits = this.#uint32();
    const byteLength = (bits >>> 1) & 0x3fffffff;
    const start = this.#take(byteLength);
    let digits = "";
    for (let index = byteLength - 1; index >= 0; index -= 1)
      digits += (this.#bytes[start + index] as number).toString(16).padStart(2, "0");
    const value = BigInt(`0x${digits === "" ? "0" : digits}`);
    return bits % 2 === 1 ? -value : value;
  }

  /** Reads keys and values until a tag, and returns their number. */
  #members(target: object, end: string): number {
    let count = 0;
    for (; this.#peek() !== end; count += 1) {
      const key = this.#value();
      if (typeof key !== "string" && typeof key !== "number") fail();
      const value = this.#value();
      // An own property, also if the key is `__proto__`.
      const descriptor = { value, writable: true, enumerable: true, configurable: true };
      Object.defineProperty(target, key as PropertyKey, descriptor);
    }
    this.#position += 1;
    return count;
  }

  #denseArray(): unknown[] {
    const length = this.#uint32();
    // Each item has at least one byte.
    if (length > this.#bytes.length - this.#position) fail();
    const items = this.#keep<unknown[]>([]);
    items.length = length;
    for (let index = 0; index < length; index += 1) {
      if (this.#peek() === TAGS.hole) this.#position += 1;
      else items[index] = this.#value();
    }
    this.#expect(this.#members(items, TAGS.endOfDenseArray));
    this.#expect(length);
    return items;
  }

  #sparseArray(): unknown[] {
    const length = this.#uint32();
    const items = this.#keep<unknown[]>([]);
    items.length = length;
    this.#expect(this.#members(items, TAGS.endOfSparseArray));
    this.#expect(length);
    return items;
  }

  #regExp(): RegExp {
    const source = this.#text(this.#tag());
    const bits = this.#uint32();
    const flags = REGEXP_FLAGS.filter(([, bit]) => (bits & bit) !== 0);
    try {
      return this.#keep(new RegExp(source, flags.map(([flag]) => flag).join("")));
    } catch {
      return fail();
    }
  }

  #map(): Map<unknown, unknown> {
    const map = this.#keep(new Map<unknown, unknown>());
    let count = 0;
    for (; this.#peek() !== TAGS.endOfMap; count += 2) map.set(this.#value(), this.#value());
    this.#position += 1;
    this.#expect(count);
    return map;
  }

  #set(): Set<unknown> {
    const set = this.#keep(new Set<unknown>());
    let count = 0;
    for (; this.#peek() !== TAGS.endOfSet; count += 1) set.add(this.#value());
    this.#position += 1;
    this.#expect(count);
    return set;
  }

  #buffer(isResizable: boolean): ArrayBuffer {
    const byteLength = this.#uint32();
    const maxByteLength = isResizable ? this.#uint32() : byteLength;
    if (byteLength > maxByteLength) fail();
    const start = this.#take(byteLength);
    const buffer = isResizable ? new ArrayBuffer(byteLength, { maxByteLength }) : new ArrayBuffer(byteLength);
    new Uint8Array(buffer).set(this.#bytes.subarray(start, start + byteLength));
    return this.#keep(buffer);
  }

  #view(buffer: ArrayBuffer): ArrayBufferView {
    this.#position += 1;
    const tag = String.fromCharCode(this.#byte());
    const [, name] = VIEWS.find(([known]) => known === tag) ?? fail();
    const offset = this.#uint32();
    const byteLength = this.#uint32();
    if (this.#version >= FIRST_VERSION_WITH_VIEW_FLAGS || this.#version === 0) this.#uint32();
    const View = classOf(name) as (ViewClass & { readonly BYTES_PER_ELEMENT?: number }) | undefined;
    if (View === undefined) return fail();
    const { BYTES_PER_ELEMENT: size = 1 } = View;
    if (offset + byteLength > buffer.byteLength || offset % size !== 0 || byteLength % size !== 0) fail();
    return this.#keep(new View(buffer, offset, byteLength / size));
  }

  #error(): Error {
    const id = this.#objects.push(undefined) - 1;
    let name = "Error";
    let message: string | undefined;
    let stack: string | undefined;
    let cause: { readonly value: unknown } | undefined;
    for (let tag = this.#tag(); tag !== ERROR_TAGS.end; tag = this.#tag()) {
      const known = Object.entries(ERROR_CLASSES).find(([, candidate]) => candidate === tag);
      if (known !== undefined) [name] = known;
      else if (tag === ERROR_TAGS.message) message = this.#text(this.#tag());
      else if (tag === ERROR_TAGS.stack) stack = this.#text(this.#tag());
      else if (tag === ERROR_TAGS.cause) cause = { value: this.#value() };
      else fail();
    }
    const ErrorClass = classOf(name) as new (message?: string, options?: { cause: unknown }) => Error;
    const error = cause === undefined ? new ErrorClass(message) : new ErrorClass(message, { cause: cause.value });
    const hidden = { writable: true, enumerable: false, configurable: true };
    Object.defineProperty(error, "stack", { ...hidden, value: stack });
    this.#objects[id] = error;
    return error;
  }

  #hostObject(): object {
    const id = this.#objects.push(undefined) - 1;
    if (typeof this._readHostObject !== "function") return fail();
    const object = this._readHostObject();
    if (typeof object !== "object" || object === null) {
      throw new TypeError("readHostObject must return an object");
    }
    this.#objects[id] = object;
    return object;
  }
}
