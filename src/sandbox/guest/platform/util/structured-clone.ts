// structuredClone (HTML, "safe passing of structured data") for the types of a guest. `transfer` detaches array buffers.
import { createDomException } from "../../module-loader.ts";
import { errorConstructor, platformTypeOf, viewConstructor } from "../../platform-types.ts";
import {
  ArrayBufferIsView,
  ArrayBufferPrototypeGetByteLength,
  ArrayBufferPrototypeGetDetached,
  ArrayBufferPrototypeSlice,
  ArrayBufferPrototypeTransfer,
  ArrayIsArray,
  append,
  BigIntPrototypeValueOf,
  BooleanPrototypeValueOf,
  DataViewConstructor,
  DataViewPrototypeGetBuffer,
  DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset,
  DateConstructor,
  DatePrototypeGetTime,
  defineValue,
  ErrorConstructor,
  FunctionPrototypeToString,
  MapConstructor,
  MapPrototypeForEach,
  MapPrototypeGet,
  MapPrototypeSet,
  NumberPrototypeValueOf,
  ObjectConstructor,
  ObjectHasOwn,
  ObjectKeys,
  ObjectPrototypeToString,
  ownValue,
  RegExpConstructor,
  RegExpPrototypeGetFlags,
  RegExpPrototypeGetSource,
  SetConstructor,
  SetPrototypeAdd,
  SetPrototypeForEach,
  SetPrototypeHas,
  StringConstructor,
  StringPrototypeSlice,
  StringPrototypeValueOf,
  SymbolPrototypeToString,
  TypedArrayPrototypeGetBuffer,
  TypedArrayPrototypeGetByteOffset,
  TypedArrayPrototypeGetLength,
  TypedArrayPrototypeGetTag,
  TypeErrorConstructor,
} from "../../primordials.ts";
import { brandOf } from "../shared/brand.ts";

type Memory = Map<object, object>;

/** Names a value in an error as V8 does. */
function nameOf(value: unknown): string {
  if (typeof value === "function") return FunctionPrototypeToString(value as () => void);
  if (typeof value === "symbol") return SymbolPrototypeToString(value);
  return `#<${StringPrototypeSlice(ObjectPrototypeToString(value), "[object ".length, -1)}>`;
}

const notCloneable = (value: unknown): Error =>
  createDomException(`${nameOf(value)} could not be cloned.`, "DataCloneError");

/** Clones own enumerable string keys. Getters run, as the standard requires. */
function cloneMembers(source: object, target: object, memory: Memory): object {
  const keys = ObjectKeys(source);
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] as string;
    if (ObjectHasOwn(source, key))
      defineValue(target, key, cloneValue((source as Record<string, unknown>)[key], memory));
  }
  return target;
}

function cloneError(source: Error, memory: Memory): Error {
  const name = StringConstructor(source.name);
  const ErrorClass = errorConstructor(name) ?? ErrorConstructor;
  const value = ownValue(source, "message");
  const message = value === undefined ? undefined : StringConstructor(value);
  const isDomException = ObjectPrototypeToString(source) === "[object DOMException]";
  const target = isDomException ? createDomException(message ?? "", name) : new ErrorClass(message);
  MapPrototypeSet(memory, source, target);
  const stack: unknown = source.stack;
  if (typeof stack === "string") {
    defineValue(target, "stack", stack, false);
  }
  if (ObjectHasOwn(source, "cause")) {
    defineValue(target, "cause", cloneValue(source.cause, memory), false);
  }
  return target;
}

function cloneBuffer(source: ArrayBuffer, memory: Memory): ArrayBuffer {
  const known = MapPrototypeGet(memory, source);
  if (known !== undefined) return known as ArrayBuffer;
  if (hasNoCopy(source) || ArrayBufferPrototypeGetDetached(source)) throw notCloneable(source);
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
  const ViewClass = viewConstructor(tag);
  if (ViewClass === undefined) throw notCloneable(source);
  return new ViewClass(
    cloneBuffer(TypedArrayPrototypeGetBuffer(source), memory),
    TypedArrayPrototypeGetByteOffset(source),
    TypedArrayPrototypeGetLength(source),
  );
}

function cloneMap(source: Map<unknown, unknown>, memory: Memory): object {
  const target = new MapConstructor<unknown, unknown>();
  MapPrototypeSet(memory, source, target);
  const entries: [unknown, unknown][] = [];
  MapPrototypeForEach(source, (value, key) => append(entries, [key, value]));
  for (let index = 0; index < entries.length; index += 1) {
    const entry = entries[index] as [unknown, unknown];
    MapPrototypeSet(target, cloneValue(entry[0], memory), cloneValue(entry[1], memory));
  }
  return target;
}

function cloneSet(source: Set<unknown>, memory: Memory): object {
  const target = new SetConstructor<unknown>();
  MapPrototypeSet(memory, source, target);
  const items: unknown[] = [];
  SetPrototypeForEach(source, (item) => append(items, item));
  for (let index = 0; index < items.length; index += 1) SetPrototypeAdd(target, cloneValue(items[index], memory));
  return target;
}

/** Tells by the tag whether a value's state cannot be read, or must not be copied silently. */
function hasNoCopy(source: object): boolean {
  switch (ObjectPrototypeToString(source)) {
    case "[object Promise]":
    case "[object WeakMap]":
    case "[object WeakSet]":
    case "[object WeakRef]":
    case "[object Generator]":
    case "[object AsyncGenerator]":
    case "[object SharedArrayBuffer]":
    case "[object WebAssembly.Module]":
    case "[object WebAssembly.Instance]":
    case "[object WebAssembly.Memory]":
    case "[object WebAssembly.Table]":
    case "[object WebAssembly.Global]":
      return true;
    default:
      return false;
  }
}

function cloneBranded(source: object, memory: Memory): object {
  switch (brandOf(source)) {
    case "Error":
      return cloneError(source as Error, memory);
    case "ArrayBuffer":
      return cloneBuffer(source as ArrayBuffer, memory);
    case "Boolean":
      return ObjectConstructor(BooleanPrototypeValueOf(source as never)) as object;
    case "Number":
      return ObjectConstructor(NumberPrototypeValueOf(source as never)) as object;
    case "String":
      return ObjectConstructor(StringPrototypeValueOf(source as never)) as object;
    case "BigInt":
      return ObjectConstructor(BigIntPrototypeValueOf(source as never)) as object;
    case "Symbol":
      throw notCloneable(source);
    case "Date":
      return new DateConstructor(DatePrototypeGetTime(source as Date));
    case "RegExp":
      return new RegExpConstructor(RegExpPrototypeGetSource(source), RegExpPrototypeGetFlags(source));
    case "Map":
      return cloneMap(source as Map<unknown, unknown>, memory);
    case "Set":
      return cloneSet(source as Set<unknown>, memory);
    default: {
      const type = platformTypeOf(source);
      if (type?.clone !== undefined) return type.clone(source);
      if (type !== undefined || hasNoCopy(source)) throw notCloneable(source);
      const target = {};
      MapPrototypeSet(memory, source, target);
      return cloneMembers(source, target, memory);
    }
  }
}

function cloneObject(source: object, memory: Memory): object {
  if (ArrayBufferIsView(source)) return cloneView(source, memory);
  if (ArrayIsArray(source)) {
    const target: unknown[] = [];
    target.length = source.length;
    MapPrototypeSet(memory, source, target);
    return cloneMembers(source, target, memory);
  }
  return cloneBranded(source, memory);
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

interface Transfer {
  readonly buffers: ArrayBuffer[];
  readonly commits: (() => void)[];
  /** Replacements of transferred objects that are not buffers, in list order. */
  readonly targets: object[];
}

/** Validates a `transfer` list. Adds the replacements of objects that are not buffers to `memory`. */
function readTransferList(list: unknown, memory: Memory): Transfer {
  const transfer: Transfer = { buffers: [], commits: [], targets: [] };
  if (list === undefined || list === null) return transfer;
  const seen = new SetConstructor<object>();
  for (const item of list as Iterable<unknown>) {
    if (typeof item !== "object" || item === null) {
      throw new TypeErrorConstructor("structuredClone expected a list of objects to transfer");
    }
    if (SetPrototypeHas(seen, item)) throw notCloneable(item);
    SetPrototypeAdd(seen, item);
    if (brandOf(item) === "ArrayBuffer" && !ArrayBufferPrototypeGetDetached(item)) {
      append(transfer.buffers, item as ArrayBuffer);
      continue;
    }
    const made = platformTypeOf(item)?.transfer?.(item);
    if (made === undefined) throw notCloneable(item);
    MapPrototypeSet(memory, item, made.target);
    append(transfer.targets, made.target);
    append(transfer.commits, made.commit);
  }
  return transfer;
}

/**
 * Clones a value, then detaches the transferred buffers. They are copied like other values: a view on a detached buffer has lost its
 * offset, and if a value cannot be cloned, the buffers must stay unchanged.
 */
export function cloneWithTransfer(
  value: unknown,
  list: unknown,
): { readonly copy: unknown; readonly transferred: readonly object[] } {
  const memory: Memory = new MapConstructor();
  const { buffers, commits, targets } = readTransferList(list, memory);
  const copy = cloneValue(value, memory);
  for (let index = 0; index < buffers.length; index += 1) ArrayBufferPrototypeTransfer(buffers[index] as ArrayBuffer);
  for (let index = 0; index < commits.length; index += 1) commits[index]?.();
  return { copy, transferred: targets };
}

export function structuredClone(
  ...args: readonly [value?: unknown, options?: { readonly transfer?: unknown }]
): unknown {
  if (args.length === 0) throw new TypeErrorConstructor("structuredClone expected a value, got no argument");
  return cloneWithTransfer(args[0], args[1]?.transfer).copy;
}
