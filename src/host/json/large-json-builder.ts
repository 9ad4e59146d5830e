// Builds the value of a large JSON text from batches of text, each of which the native parser reads.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import type { JsonErrorFactory } from "./json-errors.ts";
import { containsNonFinite } from "./non-finite.ts";

type JsonObject = { [key: string]: JsonValue };

/** A container that is too large for one batch. */
type Frame = { readonly items: JsonValue[] } | { readonly members: JsonObject; size: number };

/**
 * Maximum number of keys of one object. V8 moves all keys when its table grows: at 174,763 keys that takes 16 to 26 ms, at 349,526 it
 * takes 36 to 75 ms (measured). The limit stays below the second.
 */
export const MAX_OBJECT_KEYS = 170_000;

/** Adds a member as JSON.parse does: not through setters or read-only members of Object.prototype. */
function setMember(target: JsonObject, key: string, value: JsonValue): void {
  if (!(key in Object.prototype)) {
    target[key] = value;
    return;
  }
  const member = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(target, key, member);
}

export class LargeJsonBuilder {
  readonly #errors: JsonErrorFactory;
  readonly #maxMembers: number;
  readonly #root: JsonValue[] = [];
  readonly #frames: Frame[] = [];
  /** The innermost open container; at first a list around the whole text, with one item. */
  #top: Frame = { items: this.#root };

  constructor(errors: JsonErrorFactory, maxMembers: number = MAX_OBJECT_KEYS) {
    this.#errors = errors;
    this.#maxMembers = Math.min(maxMembers, MAX_OBJECT_KEYS);
  }

  /**
   * Adds children to the innermost container.
   * @param needsOne whether there must be at least one, because a comma precedes or follows them
   */
  add(text: string, needsOne: boolean): void {
    const added = "items" in this.#top ? this.#addItems(text) : this.#addMembers(text);
    if (needsOne && added === 0) throw this.#errors.syntax();
  }

  /** Adds the children in `text`, and then one more value at its end. `key` is the JSON text of that value's key. */
  addWith(text: string, key: string, value: JsonValue): void {
    // As `null`, it cannot join a token before it, as a number would.
    const whole = `${text}null`;
    if ("items" in this.#top) {
      this.#addItems(whole);
      this.#top.items[this.#top.items.length - 1] = value;
    } else {
      this.#addMembers(whole);
      setMember(this.#top.members, this.#parse(key) as string, value);
    }
  }

  /** Adds the children in `text`, and then opens a container at its end. Its children are added next. */
  enter(text: string, key: string, isArray: boolean): void {
    const frame: Frame = isArray ? { items: [] } : { members: {}, size: 0 };
    this.addWith(text, key, "items" in frame ? frame.items : frame.members);
    this.#frames.push(this.#top);
    this.#top = frame;
  }

  /** Closes the innermost container. @throws {ToolError} if it is of the other kind, or none is open */
  leave(isArray: boolean): void {
    const outer = this.#frames.pop();
    if (outer === undefined || "items" in this.#top !== isArray) throw this.#errors.syntax();
    this.#top = outer;
  }

  /** Returns the whole value. @throws {ToolError} if there is not exactly one, or a container is still open */
  finish(): JsonValue {
    const [value] = this.#root;
    if (value === undefined || this.#root.length > 1 || this.#frames.length > 0) throw this.#errors.syntax();
    return value;
  }

  #addItems(text: string): number {
    const added = this.#parse(`[${text}]`) as JsonValue[];
    if ("items" in this.#top) for (const item of added) this.#top.items.push(item);
    return added.length;
  }

  #addMembers(text: string): number {
    const added = this.#parse(`{${text}}`) as JsonObject;
    const keys = Object.keys(added);
    if ("members" in this.#top) {
      this.#top.size += keys.length;
      if (this.#top.size > this.#maxMembers) throw this.#errors.members(this.#maxMembers);
      for (const key of keys) setMember(this.#top.members, key, added[key] as JsonValue);
    }
    return keys.length;
  }

  #parse(text: string): JsonValue {
    let value: JsonValue;
    try {
      value = JSON.parse(text) as JsonValue;
    } catch (cause) {
      throw this.#errors.syntax(cause);
    }
    if (containsNonFinite(value, text)) throw this.#errors.infinity();
    return value;
  }
}
