// How large the JSON of a value of this process is at least, found by a walk that stops at the limit: JSON.stringify has no limit, and an
// object of a million keys held the event loop for 0.6 s before its text was measured. What stops is the reading of values and the
// writing of text: V8 lists all keys of one object at once, however many these are.
import { types } from "node:util";

export interface ValueLimits {
  /** Bytes of JSON, and of binary attachments beside it. */
  readonly bytes: number;
  /** Properties and elements that are read. */
  readonly values: number;
}

/** Thrown where a value passes its limits. `deep` where it nests so deep that it may hold itself. */
export class ValueTooLargeError extends RangeError {
  override readonly name = "ValueTooLargeError";
  readonly limit: "bytes" | "values";
  readonly isDeep: boolean;

  constructor(limit: "bytes" | "values", isDeep: boolean) {
    super(`The value passes its limit of ${limit}`);
    this.limit = limit;
    this.isDeep = isDeep;
  }
}

/** Asks a thrown value of any kind: `instanceof` alone throws for a revoked proxy. */
export const isValueTooLarge = (thrown: unknown): thrown is ValueTooLargeError =>
  Error.isError(thrown) && thrown instanceof ValueTooLargeError;

/** Deeper than what callers pass, and than what a call takes. */
const DEEP = 500;
/** `{"0":0,"1":0`: what JSON makes of a typed array that is not bytes. */
const TYPED_ITEM_BYTES = 6;

/** Counts what has been seen of one value. */
export class SizeCounter {
  readonly #limits: ValueLimits;
  #bytes = 0;
  #values = 0;
  /** Of the object that is being read. */
  depth = 0;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** @throws {ValueTooLargeError} */
  add(bytes: number, values = 0): void {
    this.#bytes += bytes;
    this.#values += values;
    if (this.#bytes > this.#limits.bytes) throw new ValueTooLargeError("bytes", this.depth > DEEP);
    if (this.#values > this.#limits.values) throw new ValueTooLargeError("values", this.depth > DEEP);
  }
}

/** Whether nothing of it is written: JSON leaves the key out, and has `null` in a list. */
const isLeftOut = (value: unknown): boolean =>
  value === undefined || typeof value === "function" || typeof value === "symbol";

/** Of JSON text, at least. An object may be a boxed number. */
function leafBytes(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  return typeof value === "boolean" || value === null ? 4 : 1;
}

/** What an object is in JSON, its `toJSON` says: perhaps nothing. */
const answersItself = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  !types.isUint8Array(value) &&
  typeof (value as { readonly toJSON?: unknown }).toJSON === "function";

/** What needs no look at its properties; undefined for any other object. */
function wholeBytes(value: object): number | undefined {
  if (types.isUint8Array(value)) return value.byteLength;
  if (types.isAnyArrayBuffer(value)) return value.byteLength;
  if (types.isTypedArray(value)) return value.length * TYPED_ITEM_BYTES;
  if (types.isDate(value)) return 0;
  if (types.isStringObject(value)) return String.prototype.valueOf.call(value).length;
  return undefined;
}

class Walk {
  readonly #counter: SizeCounter;
  readonly #open: object[] = [];
  readonly #depths: number[] = [];
  /** Whether what was seen may be other than what JSON.stringify will see: a proxy, or a `toJSON`. */
  isExotic = false;

  constructor(counter: SizeCounter) {
    this.#counter = counter;
  }

  start(value: unknown): void {
    if (!isLeftOut(value) && !answersItself(value)) this.#counter.add(leafBytes(value), 1);
    if (typeof value === "object" && value !== null) this.#push(value, 0);
    for (let holder = this.#open.pop(); holder !== undefined; holder = this.#open.pop()) {
      this.#counter.depth = this.#depths.pop() ?? 0;
      if (Array.isArray(holder)) this.#readItems(holder);
      else this.#readMembers(holder);
    }
  }

  #push(value: object, depth: number): void {
    const whole = wholeBytes(value);
    if (whole !== undefined) {
      this.#counter.add(whole);
      return;
    }
    if (types.isProxy(value)) this.isExotic = true;
    if (answersItself(value)) {
      // What it answers is counted when it is written.
      this.isExotic = true;
      return;
    }
    this.#open.push(value);
    this.#depths.push(depth);
  }

  #readItems(items: readonly unknown[]): void {
    const { length } = items;
    const { depth } = this.#counter;
    // An item and its comma; counted before the first is read.
    this.#counter.add(Math.max(0, 2 * length - 1), length);
    for (let index = 0; index < length; index += 1) {
      const item = items[index];
      if (typeof item === "number") continue;
      this.#counter.add(isLeftOut(item) ? 3 : leafBytes(item) - 1);
      if (typeof item === "object" && item !== null) this.#push(item, depth + 1);
    }
  }

  #readMembers(holder: object): void {
    const { depth } = this.#counter;
    for (const key of Object.keys(holder)) {
      const value = (holder as { readonly [key: string]: unknown })[key];
      // A key, its quotes, colon and comma.
      this.#counter.add(isLeftOut(value) || answersItself(value) ? 0 : key.length + 3 + leafBytes(value), 1);
      if (typeof value === "object" && value !== null) this.#push(value, depth + 1);
    }
  }
}

/**
 * Reads a value until it is read whole or passes its limits. It never takes JSON for larger than it is.
 * @returns whether JSON.stringify may see something else, and has to be counted too
 * @throws {ValueTooLargeError}, or what a getter or proxy throws
 */
export function checkValueSize(value: unknown, limits: ValueLimits): boolean {
  const walk = new Walk(new SizeCounter(limits));
  walk.start(value);
  return walk.isExotic;
}

/** Counts what a replacer of JSON.stringify is shown. */
export function countWritten(counter: SizeCounter, holder: unknown, key: string, value: unknown): void {
  const isItem = Array.isArray(holder);
  if (isLeftOut(value)) counter.add(isItem ? 4 : 0, 1);
  else counter.add(leafBytes(value) + (isItem ? 0 : key.length + 2), 1);
}
