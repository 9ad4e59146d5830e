// Captures the intrinsics that the prelude uses before any guest code runs. Tool code can replace all globals and prototype methods later,
// so the prelude never looks them up again. Features that a startup snapshot lacks (Temporal, DisposableStack, Promise.try …) must not be
// captured at module scope.

const { bind, call } = Function.prototype;

/** Turns a method into a function that takes `this` as its first argument: `uncurryThis(Array.prototype.slice)(list, 1)`. */
export const uncurryThis = bind.bind(call) as unknown as <This, Args extends unknown[], Result>(
  fn: (this: This, ...args: Args) => Result,
) => (self: This, ...args: Args) => Result;

export const {
  apply: ReflectApply,
  construct: ReflectConstruct,
  defineProperty: ReflectDefineProperty,
  deleteProperty: ReflectDeleteProperty,
  getOwnPropertyDescriptor: ReflectGetOwnPropertyDescriptor,
  getPrototypeOf: ReflectGetPrototypeOf,
  ownKeys: ReflectOwnKeys,
  setPrototypeOf: ReflectSetPrototypeOf,
} = Reflect;

export const {
  freeze: ObjectFreeze,
  keys: ObjectKeys,
  defineProperties: ObjectDefineProperties,
  hasOwn: ObjectHasOwn,
} = Object;
export const ObjectPrototypeToString: (self: unknown) => string = uncurryThis(Object.prototype.toString);

export const ArrayIsArray = Array.isArray;
export const ArrayPrototypeJoin = uncurryThis(Array.prototype.join) as (self: unknown[], separator: string) => string;

export const StringConstructor = String;
export const StringFromCharCode = String.fromCharCode;
export const StringPrototypeCharCodeAt = uncurryThis(String.prototype.charCodeAt);
export const StringPrototypeSlice = uncurryThis(String.prototype.slice);
export const StringPrototypeIndexOf = uncurryThis(String.prototype.indexOf) as (
  self: string,
  search: string,
  from?: number,
) => number;
export const StringPrototypeToLowerCase = uncurryThis(String.prototype.toLowerCase);
export const StringPrototypeToWellFormed = uncurryThis(String.prototype.toWellFormed);

export const MapConstructor = Map;
export const MapPrototypeGet = uncurryThis(Map.prototype.get) as <K, V>(self: Map<K, V>, key: K) => V | undefined;
export const MapPrototypeSet = uncurryThis(Map.prototype.set) as <K, V>(self: Map<K, V>, key: K, value: V) => Map<K, V>;
export const MapPrototypeDelete = uncurryThis(Map.prototype.delete) as <K, V>(self: Map<K, V>, key: K) => boolean;
export const MapPrototypeClear = uncurryThis(Map.prototype.clear) as <K, V>(self: Map<K, V>) => void;
export const MapPrototypeForEach = uncurryThis(Map.prototype.forEach) as <K, V>(
  self: Map<K, V>,
  each: (value: V, key: K) => void,
) => void;
export const SetConstructor = Set;
export const SetPrototypeHas = uncurryThis(Set.prototype.has) as <T>(self: Set<T>, value: T) => boolean;
export const SetPrototypeAdd = uncurryThis(Set.prototype.add) as <T>(self: Set<T>, value: T) => Set<T>;
export const SetPrototypeDelete = uncurryThis(Set.prototype.delete) as <T>(self: Set<T>, value: T) => boolean;
export const SetPrototypeForEach = uncurryThis(Set.prototype.forEach) as <T>(
  self: Set<T>,
  each: (value: T) => void,
) => void;
export const WeakMapConstructor = WeakMap;
export const WeakMapPrototypeGet = uncurryThis(WeakMap.prototype.get) as <K extends WeakKey, V>(
  self: WeakMap<K, V>,
  key: K,
) => V | undefined;
export const WeakMapPrototypeSet = uncurryThis(WeakMap.prototype.set) as <K extends WeakKey, V>(
  self: WeakMap<K, V>,
  key: K,
  value: V,
) => WeakMap<K, V>;

export const PromiseConstructor = Promise;
export const PromisePrototypeThen = uncurryThis(Promise.prototype.then) as <T>(
  self: Promise<T>,
  onFulfilled?: (value: T) => unknown,
  onRejected?: (reason: unknown) => unknown,
) => Promise<unknown>;

export const JSONParse = JSON.parse;
export const JSONStringify = JSON.stringify;

export const BooleanPrototypeValueOf = uncurryThis(Boolean.prototype.valueOf);
export const NumberPrototypeValueOf = uncurryThis(Number.prototype.valueOf);
export const StringPrototypeValueOf = uncurryThis(String.prototype.valueOf);
export const BigIntPrototypeValueOf = uncurryThis(BigInt.prototype.valueOf);
export const SymbolPrototypeValueOf = uncurryThis(Symbol.prototype.valueOf);
export const ObjectConstructor = Object;

export const DateNow = Date.now;
export const DatePrototypeGetTime = uncurryThis(Date.prototype.getTime);
export const DatePrototypeToString = uncurryThis(Date.prototype.toString);
export const DatePrototypeToISOString = uncurryThis(Date.prototype.toISOString);
export const FunctionPrototypeToString = uncurryThis(Function.prototype.toString);
export const SymbolPrototypeToString = uncurryThis(Symbol.prototype.toString);
export const NumberConstructor = Number;
export const { isNaN: NumberIsNaN, isFinite: NumberIsFinite, parseInt: NumberParseInt } = Number;
export const { min: MathMin, max: MathMax, trunc: MathTrunc } = Math;

export const ErrorConstructor = Error;
export const ErrorIsError = (Error as ErrorConstructor & { isError(value: unknown): boolean }).isError;
export const ProxyConstructor = Proxy;
export const TypeErrorConstructor = TypeError;
export const RangeErrorConstructor = RangeError;
export const EvalErrorConstructor = EvalError;
export const FunctionConstructor = Function;
export const Uint8ArrayConstructor = Uint8Array;
export const Uint32ArrayConstructor = Uint32Array;
export const ArrayBufferConstructor = ArrayBuffer;
export const ArrayBufferIsView = ArrayBuffer.isView;
const TypedArrayPrototype = ReflectGetPrototypeOf(Uint8Array.prototype) as object;

/** Returns a getter as a function that takes `this` as its argument. */
export function uncurryGetter<Result>(prototype: object, key: PropertyKey): (self: unknown) => Result {
  const getter = ReflectGetOwnPropertyDescriptor(prototype, key)?.get;
  if (getter === undefined) throw new TypeErrorConstructor(`No getter ${StringConstructor(key)}`);
  return uncurryThis(getter) as (self: unknown) => Result;
}

export const TypedArrayPrototypeGetBuffer = uncurryGetter<ArrayBuffer>(TypedArrayPrototype, "buffer");
export const TypedArrayPrototypeGetByteOffset = uncurryGetter<number>(TypedArrayPrototype, "byteOffset");
export const TypedArrayPrototypeGetByteLength = uncurryGetter<number>(TypedArrayPrototype, "byteLength");
export const TypedArrayPrototypeGetLength = uncurryGetter<number>(TypedArrayPrototype, "length");
export const TypedArrayPrototypeGetTag = uncurryGetter<string | undefined>(TypedArrayPrototype, Symbol.toStringTag);
export const DataViewPrototypeGetBuffer = uncurryGetter<ArrayBuffer>(DataView.prototype, "buffer");
export const DataViewPrototypeGetByteOffset = uncurryGetter<number>(DataView.prototype, "byteOffset");
export const DataViewPrototypeGetByteLength = uncurryGetter<number>(DataView.prototype, "byteLength");
export const DataViewConstructor = DataView;
export const ArrayBufferPrototypeGetByteLength = uncurryGetter<number>(ArrayBuffer.prototype, "byteLength");
export const ArrayBufferPrototypeSlice = uncurryThis(ArrayBuffer.prototype.slice);
export const ArrayBufferPrototypeTransfer = uncurryThis(
  (ArrayBuffer.prototype as ArrayBuffer & { transfer(this: ArrayBuffer): ArrayBuffer }).transfer,
);
export const ArrayBufferPrototypeGetDetached = uncurryGetter<boolean>(ArrayBuffer.prototype, "detached");
export const MapPrototypeGetSize = uncurryGetter<number>(Map.prototype, "size");
export const SetPrototypeGetSize = uncurryGetter<number>(Set.prototype, "size");
export const RegExpPrototypeGetSource = uncurryGetter<string>(RegExp.prototype, "source");
export const RegExpPrototypeGetFlags = uncurryGetter<string>(RegExp.prototype, "flags");
export const RegExpConstructor = RegExp;
export const DateConstructor = Date;

export const TypedArrayPrototypeSet = uncurryThis(Uint8Array.prototype.set) as (
  self: Uint8Array,
  source: Uint8Array,
  offset: number,
) => void;
export const TypedArrayPrototypeSlice = uncurryThis(Uint8Array.prototype.slice) as (
  self: Uint8Array,
  start: number,
  end: number,
) => Uint8Array;
export const Uint8ArrayPrototype: object = Uint8Array.prototype;
export const ArrayBufferPrototype: object = ArrayBuffer.prototype;

export const SymbolToStringTag: typeof Symbol.toStringTag = Symbol.toStringTag;
export const SymbolAsyncIterator: typeof Symbol.asyncIterator = Symbol.asyncIterator;

/**
 * Sets an own data property. A setter on a prototype, or a `get` on `Object.prototype` (which a plain descriptor would inherit), has no
 * effect on it.
 */
export function defineValue(target: object, key: PropertyKey, value: unknown, enumerable = true): void {
  const descriptor = { __proto__: null, value, writable: true, enumerable, configurable: true };
  ReflectDefineProperty(target, key, descriptor as PropertyDescriptor);
}

/** Returns the value of an own data property, or undefined for an accessor, which is not called. */
export function ownValue(source: object, key: PropertyKey): unknown {
  const descriptor = ReflectGetOwnPropertyDescriptor(source, key);
  return descriptor !== undefined && ObjectHasOwn(descriptor, "value") ? descriptor.value : undefined;
}

/** Appends to a list of the prelude. A plain assignment would call an index setter that a tool has put on `Array.prototype`. */
export function append<T>(list: T[], value: T): void {
  defineValue(list, list.length, value);
}

/**
 * Protects a promise of the prelude. `then` and `await` first read `constructor`, which a tool can replace on the prototype, so that the
 * tool's `then` would be called instead of V8's. An own `constructor` prevents that.
 */
export function secure<T>(promise: Promise<T>): Promise<T> {
  defineValue(promise, "constructor", PromiseConstructor, false);
  return promise;
}

/** Globals that boot has defined so far. Undefined after they were added to the global object. */
let bootGlobals: PropertyDescriptorMap | undefined = { __proto__: null } as unknown as PropertyDescriptorMap;

/** At boot no tool can have put a `get` on `Object.prototype`, and V8 reads plain descriptors in half the time. */
function setGlobal(name: string, descriptor: PropertyDescriptor): void {
  if (bootGlobals !== undefined) {
    bootGlobals[name] = descriptor;
    return;
  }
  ReflectSetPrototypeOf(descriptor, null);
  ReflectDefineProperty(globalThis, name, descriptor);
}

/** Adds the globals to the global object at the end of boot. Adding 30 globals at once takes 100 µs less than one by one. */
export function flushGlobals(): void {
  if (bootGlobals !== undefined) ObjectDefineProperties(globalThis, bootGlobals);
  bootGlobals = undefined;
}

/** Defines a global as the web platform does: writable, configurable, not enumerable. */
export function defineGlobal(name: string, value: unknown): void {
  setGlobal(name, { value, writable: true, enumerable: false, configurable: true });
}

/** Defines a global that is created on first access, so that an unused one costs nothing. */
export function defineLazyGlobal(name: string, make: () => unknown): void {
  setGlobal(name, {
    configurable: true,
    enumerable: false,
    get: () => {
      const value = make();
      defineGlobal(name, value);
      return value;
    },
    set: (value: unknown) => defineGlobal(name, value),
  });
}

/** Functions that only boot uses. Platform modules do not get them. */
type BootOnly = "allPrimordials" | "defineGlobal" | "defineLazyGlobal" | "flushGlobals";

/**
 * Returns all primordials for platform modules, which are evaluated when a tool may already have replaced globals. The object has no
 * prototype, so V8 stores it as a dictionary, which takes a tenth of the time to create. Hot loops should copy what they need to local
 * variables first.
 */
export function allPrimordials(): { readonly [name: string]: unknown } {
  return {
    __proto__: null,
    ArrayBufferConstructor,
    ArrayBufferIsView,
    ArrayBufferPrototype,
    ArrayBufferPrototypeGetByteLength,
    ArrayBufferPrototypeGetDetached,
    ArrayBufferPrototypeSlice,
    ArrayBufferPrototypeTransfer,
    ArrayIsArray,
    ArrayPrototypeJoin,
    BigIntPrototypeValueOf,
    BooleanPrototypeValueOf,
    DataViewConstructor,
    DataViewPrototypeGetBuffer,
    DataViewPrototypeGetByteLength,
    DataViewPrototypeGetByteOffset,
    DateConstructor,
    DateNow,
    DatePrototypeGetTime,
    DatePrototypeToISOString,
    DatePrototypeToString,
    ErrorConstructor,
    ErrorIsError,
    EvalErrorConstructor,
    FunctionConstructor,
    FunctionPrototypeToString,
    JSONParse,
    JSONStringify,
    MapConstructor,
    MapPrototypeClear,
    MapPrototypeDelete,
    MapPrototypeForEach,
    MapPrototypeGet,
    MapPrototypeGetSize,
    MapPrototypeSet,
    MathMax,
    MathMin,
    MathTrunc,
    NumberConstructor,
    NumberIsFinite,
    NumberIsNaN,
    NumberParseInt,
    NumberPrototypeValueOf,
    ObjectConstructor,
    ObjectDefineProperties,
    ObjectFreeze,
    ObjectHasOwn,
    ObjectKeys,
    ObjectPrototypeToString,
    PromiseConstructor,
    PromisePrototypeThen,
    ProxyConstructor,
    RangeErrorConstructor,
    ReflectApply,
    ReflectConstruct,
    ReflectDefineProperty,
    ReflectDeleteProperty,
    ReflectGetOwnPropertyDescriptor,
    ReflectGetPrototypeOf,
    ReflectOwnKeys,
    ReflectSetPrototypeOf,
    RegExpConstructor,
    RegExpPrototypeGetFlags,
    RegExpPrototypeGetSource,
    SetConstructor,
    SetPrototypeAdd,
    SetPrototypeDelete,
    SetPrototypeForEach,
    SetPrototypeGetSize,
    SetPrototypeHas,
    StringConstructor,
    StringFromCharCode,
    StringPrototypeCharCodeAt,
    StringPrototypeIndexOf,
    StringPrototypeSlice,
    StringPrototypeToLowerCase,
    StringPrototypeToWellFormed,
    StringPrototypeValueOf,
    SymbolAsyncIterator,
    SymbolPrototypeToString,
    SymbolPrototypeValueOf,
    SymbolToStringTag,
    TypeErrorConstructor,
    TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetByteOffset,
    TypedArrayPrototypeGetLength,
    TypedArrayPrototypeGetTag,
    TypedArrayPrototypeSet,
    TypedArrayPrototypeSlice,
    Uint32ArrayConstructor,
    Uint8ArrayConstructor,
    Uint8ArrayPrototype,
    WeakMapConstructor,
    WeakMapPrototypeGet,
    WeakMapPrototypeSet,
    append,
    defineValue,
    ownValue,
    secure,
    uncurryGetter,
    uncurryThis,
  } satisfies { readonly [Name in Exclude<keyof typeof import("./primordials.ts"), BootOnly> | "__proto__"]: unknown };
}
