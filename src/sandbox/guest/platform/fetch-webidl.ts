// What the fetch classes need of Web IDL beyond what all chunks do: bytes and words as arguments, iterators over pairs.
import { defineInterface, requireArguments } from "./webidl.ts";

/** A string whose units are bytes, as header names and values are. */
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

/** A string without lone surrogates. */
export const toUsvString = (value: unknown): string => `${value as string}`.toWellFormed();

/** A member of a dictionary that is one of a few words. */
export function toEnum<Word extends string>(value: unknown, words: readonly Word[], what: string): Word | undefined {
  if (value === undefined) return undefined;
  const text = `${value as string}`;
  if (!(words as readonly string[]).includes(text)) {
    throw new TypeError(`${what}: expected one of ${words.join(", ")}, got "${text.slice(0, 100)}"`);
  }
  return text as Word;
}

/** The built-in tag of an object, by which a class is recognised before its chunk is loaded. */
export const tagOf = (value: object): string => Object.prototype.toString.call(value).slice(8, -1);

export type Pair<Value> = readonly [name: string, value: Value];
type Kind = "keys" | "values" | "entries";

const IteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())) as object;

/**
 * Makes an interface's iterators: each step looks at the pairs as they are then, as the standard says.
 */
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
    // Throws for an owner of another class.
    pairsOf(owner);
    return new PairIterator(owner, kind) as unknown as IterableIterator<unknown>;
  };
}

/** `forEach` of an interface that is iterable over pairs. */
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
