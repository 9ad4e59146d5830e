// Deep equality for assert and util: strict (prototypes, Object.is) or loose (==).
import { types } from "./value-types.ts";

type Keyed = { readonly [key: PropertyKey]: unknown };
type Seen = readonly (readonly [unknown, unknown])[];

interface Comparison {
  readonly strict: boolean;
  /** Ignores properties of `actual` that `expected` does not have. */
  readonly partial: boolean;
  readonly seen: Seen;
}

interface KeyLike {
  equals(other: unknown): boolean;
}

const tagOf = (value: unknown): string => Object.prototype.toString.call(value).slice("[object ".length, -1);
const isObject = (value: unknown): value is Keyed => typeof value === "object" && value !== null;
const isNumberNaN = (value: unknown): boolean => typeof value === "number" && Number.isNaN(value);

function samePrimitive(a: unknown, b: unknown, strict: boolean): boolean {
  if (strict) return Object.is(a, b);
  // biome-ignore lint/suspicious/noDoubleEquals: the caller requested loose equality
  return a == b || (isNumberNaN(a) && isNumberNaN(b));
}

const keysOf = (value: Keyed, strict: boolean): PropertyKey[] => {
  const symbols = strict ? Object.getOwnPropertySymbols(value) : [];
  return [...Object.keys(value), ...symbols.filter((key) => Object.prototype.propertyIsEnumerable.call(value, key))];
};

function sameBytes(a: ArrayBufferView, b: ArrayBufferView, strict: boolean): boolean {
  if (!strict && /^\[object Float/.test(Object.prototype.toString.call(a))) {
    const [x, y] = [a as unknown as Float64Array, b as unknown as Float64Array];
    return x.length === y.length && x.every((value, index) => value === y[index]);
  }
  if (a.byteLength !== b.byteLength) return false;
  const other = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  return new Uint8Array(a.buffer, a.byteOffset, a.byteLength).every((byte, index) => byte === other[index]);
}

/** Compares the contents of a value other than its properties. Returns undefined if it has none. */
function sameInside(a: object, b: object, how: Comparison): boolean | undefined {
  if (types.isDate(a)) return types.isDate(b) && Object.is(Number(a as Date), Number(b as Date));
  if (types.isRegExp(a))
    return types.isRegExp(b) && String(a) === String(b) && (a as RegExp).lastIndex === (b as RegExp).lastIndex;
  if (types.isNativeError(a)) {
    const [x, y] = [a as Error, b as Error];
    return types.isNativeError(b) && x.message === y.message && x.name === y.name && compare(x.cause, y.cause, how);
  }
  if (types.isBoxedPrimitive(a)) return types.isBoxedPrimitive(b) && Object.is(a.valueOf(), b.valueOf());
  if (ArrayBuffer.isView(a)) return ArrayBuffer.isView(b) && sameBytes(a, b, how.strict);
  if (types.isArrayBuffer(a)) {
    return (
      types.isArrayBuffer(b) && sameBytes(new Uint8Array(a as ArrayBuffer), new Uint8Array(b as ArrayBuffer), true)
    );
  }
  if (types.isSet(a)) return types.isSet(b) && sameSet(a as Set<unknown>, b as Set<unknown>, how);
  if (types.isMap(a)) return types.isMap(b) && sameMap(a as Map<unknown, unknown>, b as Map<unknown, unknown>, how);
  if (tagOf(a) === "URL") return (a as { href?: unknown }).href === (b as { href?: unknown }).href;
  if (types.isKeyObject(a)) return types.isKeyObject(b) && (a as KeyLike).equals(b);
  if (types.isPromise(a) || types.isWeakMap(a) || types.isWeakSet(a)) return false;
  return undefined;
}

function sameSet(a: Set<unknown>, b: Set<unknown>, how: Comparison): boolean {
  if (how.partial ? a.size < b.size : a.size !== b.size) return false;
  const rest = new Set(a);
  const open: unknown[] = [];
  for (const value of b) if (!rest.delete(value)) open.push(value);
  return open.every((value) => {
    for (const candidate of rest) {
      if (compare(candidate, value, how)) return rest.delete(candidate);
    }
    return false;
  });
}

function sameMap(a: Map<unknown, unknown>, b: Map<unknown, unknown>, how: Comparison): boolean {
  if (how.partial ? a.size < b.size : a.size !== b.size) return false;
  const rest = new Map(a);
  const open: [unknown, unknown][] = [];
  for (const [key, value] of b) {
    if (rest.has(key) && compare(rest.get(key), value, how)) rest.delete(key);
    else open.push([key, value]);
  }
  return open.every(([key, value]) => {
    for (const [otherKey, otherValue] of rest) {
      if (compare(otherKey, key, how) && compare(otherValue, value, how)) return rest.delete(otherKey);
    }
    return false;
  });
}

function sameProperties(a: Keyed, b: Keyed, how: Comparison): boolean {
  const keys = keysOf(b, how.strict);
  if (!how.partial && keysOf(a, how.strict).length !== keys.length) return false;
  return keys.every((key) => Object.prototype.propertyIsEnumerable.call(a, key) && compare(a[key], b[key], how));
}

function compare(a: unknown, b: unknown, how: Comparison): boolean {
  if (a === b) return a !== 0 || !how.strict || Object.is(a, b);
  if (!isObject(a) || !isObject(b)) {
    if (isObject(a) !== isObject(b) && how.strict) return false;
    if (isObject(a) || isObject(b)) return !how.strict && typeof a !== "function" && typeof b !== "function" && false;
    return samePrimitive(a, b, how.strict);
  }
  if (how.strict && !how.partial && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (Object.prototype.toString.call(a) !== Object.prototype.toString.call(b)) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b) && !how.partial && a.length !== b.length) return false;
  const known = how.seen.find(([one]) => one === a);
  if (known !== undefined) return known[1] === b;
  const inner: Comparison = { ...how, seen: [...how.seen, [a, b]] };
  if (sameInside(a, b, inner) === false) return false;
  return ArrayBuffer.isView(a) ? true : sameProperties(a, b, inner);
}

export const isDeepStrictEqual = (a: unknown, b: unknown): boolean =>
  compare(a, b, { strict: true, partial: false, seen: [] });
export const isDeepLooseEqual = (a: unknown, b: unknown): boolean =>
  compare(a, b, { strict: false, partial: false, seen: [] });
export const isPartialDeepEqual = (a: unknown, b: unknown): boolean =>
  compare(a, b, { strict: true, partial: true, seen: [] });
