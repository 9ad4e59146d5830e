// Measures the minimum size of a value's JSON by walking the value, and stops at a limit. JSON.stringify has no limit: for an object with a
// million keys, it blocked the event loop for 0.6 s before the size was known. Reading values and writing text can be stopped; listing
// the keys of one object cannot, because V8 does that at once.
import { types } from "node:util";

export interface ValueLimits {
  /** Size of the JSON text and its binary attachments, in bytes. */
  readonly bytes: number;
  /** Number of properties and elements. */
  readonly values: number;
  /** Whether a promise, a Map or a Set is an error: their JSON is {}, whatever they contain. @default false */
  readonly rejectsOpaque?: boolean | undefined;
}

/** Returns whether the JSON of an object says nothing of what it contains. */
export const isOpaque = (value: unknown): boolean => types.isPromise(value) || types.isMap(value) || types.isSet(value);

/** The error for a value that exceeds a limit. */
export class ValueTooLargeError extends RangeError {
  override readonly name = "ValueTooLargeError";
  readonly limit: "bytes" | "values";
  /** Whether the value is nested so deeply that it may contain itself. */
  readonly isDeep: boolean;

  constructor(limit: "bytes" | "values", isDeep: boolean) {
    super(`The value exceeds its limit of ${limit}`);
    this.limit = limit;
    this.isDeep = isDeep;
  }
}

/** Accepts any thrown value. `instanceof` alone would throw for a revoked proxy. */
export const isValueTooLarge = (thrown: unknown): thrown is ValueTooLargeError =>
  Error.isError(thrown) && thrown instanceof ValueTooLargeError;

/** Depth above which a value may contain itself: callers pass less, and calls accept less. */
const SUSPICIOUS_DEPTH = 500;
/** Bytes of JSON for each item of a typed array other than Uint8Array, which is serialized as `{"0":0,"1":0}`. */
const TYPED_ITEM_BYTES = 6;

/** Counts the bytes and values of one value. */
export class SizeCounter {
  readonly #limits: ValueLimits;
  #bytes = 0;
  #values = 0;
  /** Depth of the object that is being read. */
  depth = 0;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** @throws {ValueTooLargeError} */
  add(bytes: number, values = 0): void {
    this.#bytes += bytes;
    this.#values += values;
    if (this.#bytes > this.#limits.bytes) throw new ValueTooLargeError("bytes", this.depth > SUSPICIOUS_DEPTH);
    if (this.#values > this.#limits.values) throw new ValueTooLargeError("values", this.depth > SUSPICIOUS_DEPTH);
  }
}

/** Returns whether JSON omits the value: it omits its key in an object, and has `null` for it in a list. */
const isOmitted = (value: unknown): boolean =>
  value === undefined || typeof value === "function" || typeof value === "symbol";

/** Returns the minimum size of the value's own JSON, without its members. It is 1 for an object, because that may be a boxed number. */
function minLeafBytes(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  return typeof value === "boolean" || value === null ? 4 : 1;
}

/** Returns whether an object has a `toJSON` method, which decides how it is serialized and whether it is omitted. */
const hasToJson = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  !types.isUint8Array(value) &&
  typeof (value as { readonly toJSON?: unknown }).toJSON === "function";

/** Returns the size of an object whose properties need not be read, or undefined for any other object. */
function opaqueBytes(value: object): number | undefined {
  if (types.isUint8Array(value)) return value.byteLength;
  if (types.isAnyArrayBuffer(value)) return value.byteLength;
  if (types.isTypedArray(value)) return value.length * TYPED_ITEM_BYTES;
  if (types.isDate(value)) return 0;
  if (types.isStringObject(value)) return String.prototype.valueOf.call(value).length;
  return undefined;
}

class ValueWalker {
  readonly #counter: SizeCounter;
  readonly #rejectsOpaque: boolean;
  readonly #open: object[] = [];
  readonly #depths: number[] = [];
  /** Whether JSON.stringify may read other values than this walk, because of a proxy or a `toJSON` method. */
  isExotic = false;

  constructor(counter: SizeCounter, rejectsOpaque: boolean) {
    this.#counter = counter;
    this.#rejectsOpaque = rejectsOpaque;
  }

  start(value: unknown): void {
    if (!isOmitted(value) && !hasToJson(value)) this.#counter.add(minLeafBytes(value), 1);
    if (typeof value === "object" && value !== null) this.#push(value, 0);
    for (let holder = this.#open.pop(); holder !== undefined; holder = this.#open.pop()) {
      this.#counter.depth = this.#depths.pop() ?? 0;
      if (Array.isArray(holder)) this.#readItems(holder);
      else this.#readMembers(holder);
    }
  }

  #push(value: object, depth: number): void {
    const opaque = opaqueBytes(value);
    if (opaque !== undefined) {
      this.#counter.add(opaque);
      return;
    }
    if (types.isProxy(value)) this.isExotic = true;
    if (hasToJson(value)) {
      // Its result is counted when it is serialized.
      this.isExotic = true;
      return;
    }
    this.#open.push(value);
    this.#depths.push(depth);
  }

  #readItems(items: readonly unknown[]): void {
    const { length } = items;
    const { depth } = this.#counter;
    // Each item has at least one byte and a comma. They are counted before the first item is read.
    this.#counter.add(Math.max(0, 2 * length - 1), length);
    for (let index = 0; index < length; index += 1) {
      const item = items[index];
      if (typeof item === "number") continue;
      this.#counter.add(isOmitted(item) ? 3 : minLeafBytes(item) - 1);
      if (typeof item === "object" && item !== null) this.#push(item, depth + 1);
    }
  }

  #readMembers(holder: object): void {
    const { depth } = this.#counter;
    const keys = Object.keys(holder);
    if (keys.length === 0 && this.#rejectsOpaque && isOpaque(holder)) throw new TypeError("The value is not JSON");
    for (const key of keys) {
      const value = (holder as { readonly [key: string]: unknown })[key];
      // A member has a key, two quotes, a colon and a comma.
      this.#counter.add(isOmitted(value) || hasToJson(value) ? 0 : key.length + 3 + minLeafBytes(value), 1);
      if (typeof value === "object" && value !== null) this.#push(value, depth + 1);
    }
  }
}

/**
 * Reads a value completely or up to a limit. The measured size is never larger than the size of the JSON text.
 * @returns whether JSON.stringify may read other values, so that its output must be counted too
 * @throws {ValueTooLargeError} if the value exceeds a limit
 * @throws {TypeError} for an opaque object, if the limits reject them; also throws what a getter or proxy throws
 */
export function checkValueSize(value: unknown, limits: ValueLimits): boolean {
  const walker = new ValueWalker(new SizeCounter(limits), limits.rejectsOpaque === true);
  walker.start(value);
  return walker.isExotic;
}

/** Counts a value that JSON.stringify has passed to its replacer. */
export function countSerialized(counter: SizeCounter, holder: unknown, key: string, value: unknown): void {
  const isItem = Array.isArray(holder);
  if (isOmitted(value)) counter.add(isItem ? 4 : 0, 1);
  else counter.add(minLeafBytes(value) + (isItem ? 0 : key.length + 2), 1);
}
