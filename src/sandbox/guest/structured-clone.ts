// structuredClone (HTML, "safe passing of structured data") for the types a guest has. `transfer` moves array buffers.
import { DOMException } from "./dom-exception.ts";
import {
  ArrayBufferConstructor,
  ArrayBufferIsView,
  ArrayBufferPrototypeGetByteLength,
  ArrayBufferPrototypeSlice,
  ArrayIsArray,
  append,
  DataViewConstructor,
  DataViewPrototypeGetBuffer,
  DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset,
  DateConstructor,
  DatePrototypeGetTime,
  defineGlobal,
  ErrorConstructor,
  MapConstructor,
  MapPrototypeForEach,
  MapPrototypeGet,
  MapPrototypeSet,
  ObjectHasOwn,
  ObjectKeys,
  ObjectPrototypeToString,
  ReflectDefineProperty,
  ReflectGetOwnPropertyDescriptor,
  RegExpConstructor,
  RegExpPrototypeGetFlags,
  RegExpPrototypeGetSource,
  SetConstructor,
  SetPrototypeAdd,
  SetPrototypeForEach,
  StringConstructor,
  TypedArrayPrototypeGetBuffer,
  TypedArrayPrototypeGetByteOffset,
  TypedArrayPrototypeGetLength,
  TypedArrayPrototypeGetTag,
  TypeErrorConstructor,
} from "./primordials.ts";

type Memory = Map<object, object>;
type ViewConstructor = new (buffer: ArrayBuffer, byteOffset: number, length: number) => object;

const viewConstructors = new MapConstructor<string, ViewConstructor>();
for (const constructor of [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
]) {
  MapPrototypeSet(viewConstructors, constructor.name, constructor as unknown as ViewConstructor);
}
const errorConstructors = new MapConstructor<string, ErrorConstructor>();
for (const constructor of [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
  MapPrototypeSet(errorConstructors, constructor.name, constructor);
}

const notCloneable = (value: unknown): DOMException =>
  new DOMException(`${ObjectPrototypeToString(value)} could not be cloned`, "DataCloneError");

function set(target: object, key: PropertyKey, value: unknown): void {
  ReflectDefineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Own enumerable string keys; getters run, as the standard says. */
function cloneMembers(source: object, target: object, memory: Memory): object {
  const keys = ObjectKeys(source);
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] as string;
    if (ObjectHasOwn(source, key)) set(target, key, cloneValue((source as Record<string, unknown>)[key], memory));
  }
  return target;
}

function cloneError(source: Error, memory: Memory): Error {
  const name = StringConstructor(source.name);
  const constructor = MapPrototypeGet(errorConstructors, name) ?? ErrorConstructor;
  const target = new constructor(ReflectGetOwnPropertyDescriptor(source, "message")?.value as string | undefined);
  MapPrototypeSet(memory, source, target);
  const stack: unknown = source.stack;
  if (typeof stack === "string") {
    ReflectDefineProperty(target, "stack", { value: stack, writable: true, enumerable: false, configurable: true });
  }
  if (ObjectHasOwn(source, "cause")) {
    const value = cloneValue(source.cause, memory);
    ReflectDefineProperty(target, "cause", { value, writable: true, enumerable: false, configurable: true });
  }
  return target;
}

function cloneBuffer(source: ArrayBuffer, memory: Memory): ArrayBuffer {
  const known = MapPrototypeGet(memory, source);
  if (known !== undefined) return known as ArrayBuffer;
  const copy = ArrayBufferPrototypeSlice(source, 0, ArrayBufferPrototypeGetByteLength(source));
  MapPrototypeSet(memory, source, copy);
  return copy;
}

function cloneView(source: object, memory: Memory): object {
  const tag = TypedArrayPrototypeGetTag(source);
  if (tag === undefined) {
    return new DataViewConstructor(
      cloneBuffer(DataViewPrototypeGetBuffer(source), memory),
      DataViewPrototypeGetByteOffset(source),
      DataViewPrototypeGetByteLength(source),
    );
  }
  const constructor = MapPrototypeGet(viewConstructors, tag);
  if (constructor === undefined) throw notCloneable(source);
  return new constructor(
    cloneBuffer(TypedArrayPrototypeGetBuffer(source), memory),
    TypedArrayPrototypeGetByteOffset(source),
    TypedArrayPrototypeGetLength(source),
  );
}

function cloneTagged(source: object, memory: Memory): object {
  switch (ObjectPrototypeToString(source)) {
    case "[object Boolean]":
    case "[object Number]":
    case "[object String]":
    case "[object BigInt]":
      return Object((source as { valueOf(): unknown }).valueOf()) as object;
    case "[object Date]":
      return new DateConstructor(DatePrototypeGetTime(source as Date));
    case "[object RegExp]":
      return new RegExpConstructor(RegExpPrototypeGetSource(source), RegExpPrototypeGetFlags(source));
    case "[object Map]": {
      const target = new MapConstructor<unknown, unknown>();
      MapPrototypeSet(memory, source, target);
      const entries: [unknown, unknown][] = [];
      MapPrototypeForEach(source as Map<unknown, unknown>, (value, key) => append(entries, [key, value]));
      for (let index = 0; index < entries.length; index += 1) {
        const entry = entries[index] as [unknown, unknown];
        MapPrototypeSet(target, cloneValue(entry[0], memory), cloneValue(entry[1], memory));
      }
      return target;
    }
    case "[object Set]": {
      const target = new SetConstructor<unknown>();
      MapPrototypeSet(memory, source, target);
      const items: unknown[] = [];
      SetPrototypeForEach(source as Set<unknown>, (item) => append(items, item));
      for (let index = 0; index < items.length; index += 1) SetPrototypeAdd(target, cloneValue(items[index], memory));
      return target;
    }
    case "[object Promise]":
    case "[object WeakMap]":
    case "[object WeakSet]":
    case "[object WeakRef]":
    case "[object Generator]":
    case "[object AsyncGenerator]":
      throw notCloneable(source);
    default: {
      const target = {};
      MapPrototypeSet(memory, source, target);
      return cloneMembers(source, target, memory);
    }
  }
}

function cloneObject(source: object, memory: Memory): object {
  if (source instanceof ErrorConstructor) return cloneError(source, memory);
  if (source instanceof ArrayBufferConstructor) return cloneBuffer(source, memory);
  if (ArrayBufferIsView(source)) return cloneView(source, memory);
  if (ArrayIsArray(source)) {
    const target: unknown[] = [];
    target.length = source.length;
    MapPrototypeSet(memory, source, target);
    return cloneMembers(source, target, memory);
  }
  return cloneTagged(source, memory);
}

function cloneValue(value: unknown, memory: Memory): unknown {
  if (typeof value === "function" || typeof value === "symbol") throw notCloneable(value);
  if (typeof value !== "object" || value === null) return value;
  const known = MapPrototypeGet(memory, value);
  if (known !== undefined) return known;
  const copy = cloneObject(value, memory);
  MapPrototypeSet(memory, value, copy);
  return copy;
}

function transferBuffers(list: unknown, memory: Memory): void {
  if (list === undefined) return;
  for (const item of list as Iterable<unknown>) {
    if (!(item instanceof ArrayBufferConstructor)) throw notCloneable(item);
    MapPrototypeSet(memory, item, (item as ArrayBuffer & { transfer(): ArrayBuffer }).transfer());
  }
}

export function structuredClone(
  ...args: readonly [value?: unknown, options?: { readonly transfer?: unknown }]
): unknown {
  if (args.length === 0) throw new TypeErrorConstructor("structuredClone expected a value, got no argument");
  const memory: Memory = new MapConstructor();
  transferBuffers(args[1]?.transfer, memory);
  return cloneValue(args[0], memory);
}

export function installStructuredClone(): void {
  defineGlobal("structuredClone", structuredClone);
}
