// Headers (Fetch standard, 5.1) and the header list that stores them.

import { defineInterface, requireArguments } from "../shared/webidl.ts";
import { showAs } from "./fetch-inspect.ts";
import { forEachPair, makePairIterators, type Pair, toByteString } from "./fetch-webidl.ts";

type HeaderPair = Pair<string>;

const TOKEN = /^[!#$%&'*+\-.^_`|~A-Za-z0-9]+$/;
export const isToken = (text: string): boolean => TOKEN.test(text);

const SPACE_AROUND = /^[\t\n\r ]+|[\t\n\r ]+$/g;
const FORBIDDEN_IN_VALUE = /[\0\n\r]/;

interface Header {
  /** Name as first written. Its case is kept for the wire. */
  readonly name: string;
  readonly values: string[];
}

/** A list with case-insensitive names. The values of a name keep their order. */
export class GuestHeaderList {
  readonly #headers = new Map<string, Header>();
  #sorted: readonly HeaderPair[] | undefined;

  /** @param pairs valid names and values */
  static from(pairs: Iterable<HeaderPair>): GuestHeaderList {
    const list = new GuestHeaderList();
    for (const [name, value] of pairs) list.append(name, value);
    return list;
  }

  append(name: string, value: string): void {
    this.#sorted = undefined;
    const key = name.toLowerCase();
    const known = this.#headers.get(key);
    if (known === undefined) this.#headers.set(key, { name, values: [value] });
    else known.values.push(value);
  }

  set(name: string, value: string): void {
    this.#sorted = undefined;
    const key = name.toLowerCase();
    this.#headers.set(key, { name: this.#headers.get(key)?.name ?? name, values: [value] });
  }

  delete(name: string): void {
    this.#sorted = undefined;
    this.#headers.delete(name.toLowerCase());
  }

  has(name: string): boolean {
    return this.#headers.has(name.toLowerCase());
  }

  get(name: string): string | null {
    return this.#headers.get(name.toLowerCase())?.values.join(", ") ?? null;
  }

  cookies(): string[] {
    return [...(this.#headers.get("set-cookie")?.values ?? [])];
  }

  /** Returns each value separately, as it is sent. */
  pairs(): HeaderPair[] {
    return [...this.#headers.values()].flatMap(({ name, values }) => values.map((value): HeaderPair => [name, value]));
  }

  /** Implements "sort and combine", the order of iteration. */
  sorted(): readonly HeaderPair[] {
    this.#sorted ??= [...this.#headers.keys()].sort().flatMap((key): HeaderPair[] => {
      const values = this.#headers.get(key)?.values ?? [];
      return key === "set-cookie" ? values.map((value) => [key, value]) : [[key, values.join(", ")]];
    });
    return this.#sorted;
  }

  copy(): GuestHeaderList {
    return GuestHeaderList.from(this.pairs());
  }
}

/** Request headers that browsers control are allowed, as in Node. The host decides which headers are sent. */
export type HeadersGuard = "none" | "immutable";

/** Returns a valid header name, or throws a TypeError. */
function checkedName(name: unknown, what: string): string {
  const text = toByteString(name, what);
  if (!isToken(text)) throw new TypeError(`${what}: expected a header name, got "${text.slice(0, 100)}"`);
  return text;
}

function checkedValue(value: unknown, what: string): string {
  const text = toByteString(value, what).replace(SPACE_AROUND, "");
  if (FORBIDDEN_IN_VALUE.test(text)) {
    throw new TypeError(`${what}: expected a header value without line breaks and NUL characters`);
  }
  return text;
}

function* pairsOfSequence(sequence: Iterable<unknown>): Generator<[unknown, unknown]> {
  for (const item of sequence) {
    const isIterable =
      (typeof item === "object" || typeof item === "function") && item !== null && Symbol.iterator in item;
    if (!isIterable) throw new TypeError("Headers: expected each header to be a pair of name and value");
    const pair = [...(item as Iterable<unknown>)];
    if (pair.length !== 2) throw new TypeError(`Headers: expected pairs of name and value, got ${pair.length} items`);
    yield [pair[0], pair[1]];
  }
}

function recordOf(source: object): Map<string, string> {
  const record = new Map<string, string>();
  for (const key of Reflect.ownKeys(source)) {
    if (Reflect.getOwnPropertyDescriptor(source, key)?.enumerable !== true) continue;
    const name = toByteString(key, "Headers");
    record.set(name, toByteString((source as { readonly [key: string]: unknown })[name], "Headers"));
  }
  return record;
}

/** Reads HeadersInit: a sequence of pairs, or a record. */
function pairsOfInit(init: unknown): Iterable<Pair<unknown>> {
  if ((typeof init !== "object" && typeof init !== "function") || init === null) {
    throw new TypeError(
      `Headers: expected a record or a sequence of pairs, got ${init === null ? "null" : typeof init}`,
    );
  }
  const iterate: unknown = (init as { readonly [Symbol.iterator]?: unknown })[Symbol.iterator];
  if (iterate === undefined || iterate === null) return recordOf(init);
  // Names keep their case: iterating would return them in lower case.
  if (iterate === Headers.prototype.entries && isHeaders(init)) return headerListOf(init).pairs();
  if (typeof iterate !== "function") throw new TypeError("Headers: expected the iterator to be a function");
  // The whole sequence is read before any item is used.
  const sequence = { [Symbol.iterator]: () => Reflect.apply(iterate, init, []) as Iterator<unknown> };
  return [...pairsOfSequence(sequence)].map(([name, value]) => [
    toByteString(name, "Headers"),
    toByteString(value, "Headers"),
  ]);
}

/** Returns the list of a Headers object. */
export let headerListOf: (headers: Headers) => GuestHeaderList;
/** Creates a Headers object for an existing list. */
export let makeHeaders: (list: GuestHeaderList, guard?: HeadersGuard) => Headers;
export let isHeaders: (value: object) => value is Headers;
/** Copies a Headers object together with its guard. */
export let copyHeaders: (headers: Headers) => Headers;

export class Headers {
  #list = new GuestHeaderList();
  #guard: HeadersGuard = "none";

  static {
    headerListOf = (headers) => headers.#list;
    isHeaders = (value): value is Headers => #list in value;
    makeHeaders = (list, guard = "none") => {
      const headers = new Headers();
      headers.#list = list;
      headers.#guard = guard;
      return headers;
    };
    copyHeaders = (headers) => makeHeaders(headers.#list.copy(), headers.#guard);
  }

  constructor(init: unknown = undefined) {
    if (init === undefined) return;
    for (const [name, value] of pairsOfInit(init)) {
      this.#list.append(checkedName(name, "Headers"), checkedValue(value, "Headers"));
    }
  }

  #forWriting(what: string): GuestHeaderList {
    if (this.#guard === "immutable") throw new TypeError(`${what}: these headers are immutable`);
    return this.#list;
  }

  append(...args: readonly [name: unknown, value: unknown]): void {
    requireArguments("Headers.append", 2, args.length);
    const name = toByteString(args[0], "Headers.append");
    const value = checkedValue(args[1], "Headers.append");
    const checked = checkedName(name, "Headers.append");
    this.#forWriting("Headers.append").append(checked, value);
  }

  delete(...args: readonly [name: unknown]): void {
    requireArguments("Headers.delete", 1, args.length);
    const name = checkedName(args[0], "Headers.delete");
    this.#forWriting("Headers.delete").delete(name);
  }

  get(...args: readonly [name: unknown]): string | null {
    requireArguments("Headers.get", 1, args.length);
    return this.#list.get(checkedName(args[0], "Headers.get"));
  }

  getSetCookie(): string[] {
    return this.#list.cookies();
  }

  has(...args: readonly [name: unknown]): boolean {
    requireArguments("Headers.has", 1, args.length);
    return this.#list.has(checkedName(args[0], "Headers.has"));
  }

  set(...args: readonly [name: unknown, value: unknown]): void {
    requireArguments("Headers.set", 2, args.length);
    const name = toByteString(args[0], "Headers.set");
    const value = checkedValue(args[1], "Headers.set");
    const checked = checkedName(name, "Headers.set");
    this.#forWriting("Headers.set").set(checked, value);
  }

  entries(): IterableIterator<unknown> {
    return iterate(this, "entries");
  }

  keys(): IterableIterator<unknown> {
    return iterate(this, "keys");
  }

  values(): IterableIterator<unknown> {
    return iterate(this, "values");
  }

  forEach(...args: readonly unknown[]): void {
    const list = this.#list;
    forEachPair("Headers.forEach", () => list.sorted(), this, args);
  }

  declare [Symbol.iterator]: () => IterableIterator<unknown>;
}
const iterate = makePairIterators<Headers, string>("Headers", (headers) => headerListOf(headers).sorted());
defineInterface("Headers", Headers);
showAs("Headers", Headers, (headers) => {
  const shown: { [name: string]: string } = {};
  for (const [name, value] of headerListOf(headers).sorted())
    shown[name] = Object.hasOwn(shown, name) ? `${shown[name]}, ${value}` : value;
  return shown;
});
Object.defineProperty(Headers.prototype, Symbol.iterator, {
  value: Headers.prototype.entries,
  writable: true,
  configurable: true,
});
