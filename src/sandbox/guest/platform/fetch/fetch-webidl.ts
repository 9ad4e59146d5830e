// Web IDL helpers that only the fetch classes need: byte strings, enumerations, and iterators over pairs.
import { defineInterface, requireArguments } from "../shared/webidl.ts";

/** Converts to a string whose code units are bytes, as in header names and values. */
export function toByteString(value: unknown, what: string): string {
  const text = `${value as string}`;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit > 0xff) {
      throw new TypeError(`${what}: expected characters up to U+00FF, got one of code ${unit} at index ${index}`);
    }
  }
  return text;
}

/** Converts to a string without lone surrogates. */
export const toUsvString = (value: unknown): string => `${value as string}`.toWellFormed();

/** Converts to one of the values of an enumeration. */
export function toEnum<Word extends string>(value: unknown, allowed: readonly Word[], what: string): Word | undefined {
  if (value === undefined) return undefined;
  const text = `${value as string}`;
  if (!(allowed as readonly string[]).includes(text)) {
    throw new TypeError(`${what}: expected one of ${allowed.join(", ")}, got "${text.slice(0, 100)}"`);
  }
  return text as Word;
}

/** Returns the built-in tag of an object, which identifies a class before its platform module is loaded. */
export const tagOf = (value: object): string => Object.prototype.toString.call(value).slice(8, -1);

export type Pair<Value> = readonly [name: string, value: Value];
type Kind = "keys" | "values" | "entries";

const IteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())) as object;

/** Creates the iterators of an interface. Each step reads the current pairs, as the standard requires. */
export function makePairIterators<Owner, Value>(
  name: string,
  pairsOf: (owner: Owner) => readonly Pair<Value>[],
): (owner: Owner, kind: Kind) => IterableIterator<unknown> {
  class PairIterator {
    readonly #owner: Owner;
    readonly #kind: Kind;
    #index = 0;

    constructor(owner: Owner, kind: Kind) {
      this.#owner = owner;
      this.#kind = kind;
    }

    next(): IteratorResult<unknown> {
      const pair = pairsOf(this.#owner)[this.#index];
      if (pair === undefined) return { value: undefined, done: true };
      this.#index += 1;
      const value = this.#kind === "keys" ? pair[0] : this.#kind === "values" ? pair[1] : [pair[0], pair[1]];
      return { value, done: false };
    }
  }
  defineInterface(`${name} Iterator`, PairIterator);
  Reflect.deleteProperty(PairIterator.prototype, "constructor");
  Object.setPrototypeOf(PairIterator.prototype, IteratorPrototype);
  return (owner, kind) => {
    // Throws if the owner is an object of another class.
    pairsOf(owner);
    return new PairIterator(owner, kind) as unknown as IterableIterator<unknown>;
  };
}

/** Implements `forEach` of an interface that is iterable over pairs. */
export function forEachPair<Value>(
  what: string,
  pairs: () => readonly Pair<Value>[],
  owner: object,
  args: readonly unknown[],
): void {
  requireArguments(what, 1, args.length);
  const [callback, self] = args;
  if (typeof callback !== "function") throw new TypeError(`${what}: expected a function, got ${typeof callback}`);
  for (let index = 0; index < pairs().length; index += 1) {
    const pair = pairs()[index];
    if (pair !== undefined) Reflect.apply(callback, self, [pair[1], pair[0], owner]);
  }
}
