// Coerces a value to its schema and lists the changes: removes unknown members and nulls of optional members, and converts scalars of the
// wrong type. The caller validates the result like any other value.

import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { typeOf } from "../describe.ts";
import { toBoundedPointer } from "../json-pointer.ts";
import type { Schema, SchemaObject } from "../schema/schema-copy.ts";
import { type SchemaRun, StopSignal } from "../schema-run.ts";
import { applicableTo, itemsIn, membersIn, type SchemaGuide } from "./applicable.ts";
import { conversionsOf } from "./conversions.ts";

export interface CoerceOptions {
  /** Treatment of members that the schema does not name. "reject" lists their pointers, so that the caller can reject the value. */
  readonly unknownKeys: "keep" | "prune" | "reject";
  /** Converts values of the wrong type if no information is lost, and removes optional members that are `null`. */
  readonly coerce: boolean;
  /** Restricts `coerce` to removing optional members that are `null`. */
  readonly nullsOnly?: boolean;
}

/** One change of a value. */
export type ValueCoercion =
  | { readonly kind: "pruned"; readonly pointer: string }
  /** `from` and `to` are JSON types; `to` is "nothing" for a member that was removed. */
  | { readonly kind: "coerced"; readonly pointer: string; readonly from: string; readonly to: string };

export interface CoerceOutcome {
  /** The coerced value; the given value itself if nothing was changed. */
  readonly value: unknown;
  readonly coercions: readonly ValueCoercion[];
  /** Pointers of unknown members, if `unknownKeys` is "reject". */
  readonly unknown: readonly string[];
  /** Whether the coercion was stopped because it took too long, or because of too many levels or changes. Then the value is unchanged. */
  readonly stopped: boolean;
}

/** Maximum number of changes. A model's mistakes need fewer. */
const MAX_COERCIONS = 1_000;
const MAX_POINTER_LENGTH = 1_024;
/** Maximum depth of nested conversions, such as JSON text within JSON text. */
const MAX_CONVERSIONS_DEEP = 2;

/** Marks a member to be removed. */
const REMOVED = Symbol("removed");

class TooManyChanges extends Error {}

/** Coerces a value; never changes the given one. Call it through `CompiledSchema.coerce`. */
export function coerceValue(value: unknown, options: CoerceOptions, guide: SchemaGuide, run: SchemaRun): CoerceOutcome {
  const coercer = new ValueCoercer(options, guide, run);
  try {
    const coerced = coercer.visit([guide.root], value);
    return { value: coerced, coercions: coercer.coercions, unknown: coercer.unknown, stopped: false };
  } catch (error) {
    // V8 throws a RangeError where its stack ends.
    if (!(error instanceof StopSignal || error instanceof TooManyChanges || error instanceof RangeError)) throw error;
    return { value, coercions: [], unknown: [], stopped: true };
  }
}

class ValueCoercer {
  readonly coercions: ValueCoercion[] = [];
  readonly unknown: string[] = [];
  readonly #options: CoerceOptions;
  readonly #guide: SchemaGuide;
  readonly #run: SchemaRun;
  readonly #path: (string | number)[] = [];
  #conversionsDeep = 0;

  constructor(options: CoerceOptions, guide: SchemaGuide, run: SchemaRun) {
    this.#options = options;
    this.#guide = guide;
    this.#run = run;
  }

  /** Returns the value coerced to all the given schemas, as far as possible. */
  visit(given: readonly Schema[], value: unknown): unknown {
    this.#run.spend(1);
    if (given.length === 0 || this.#isSettled(given, value)) return value;
    const schemas = this.#applicable(given, value);
    const convert = this.#options.coerce && this.#options.nullsOnly !== true;
    if (convert && !this.#isOfType(schemas, value)) {
      const converted = this.#convert(schemas, value);
      if (converted !== undefined) return converted.value;
    }
    if (Array.isArray(value)) return this.#visitItems(schemas, value);
    return isJsonObject(value) ? this.#visitObject(schemas, value) : value;
  }

  /** Tells whether the value needs no coercion, which is the case for most values. Containers are visited if unknown keys matter. */
  #isSettled(given: readonly Schema[], value: unknown): boolean {
    const { unknownKeys, coerce, nullsOnly } = this.#options;
    const isContainer = typeof value === "object" && value !== null;
    if (!isContainer && (!coerce || nullsOnly === true)) return true;
    return (!isContainer || unknownKeys === "keep") && given.every((schema) => this.#fits(schema, value));
  }

  /** Returns all schemas that apply. Of each union, these are the branches that the value matches, or else the nearest branch. */
  #applicable(given: readonly Schema[], value: unknown): readonly SchemaObject[] {
    const found = new Set<SchemaObject>();
    let open = given;
    while (open.length > 0) {
      const { schemas, unions } = applicableTo(open, value, this.#guide, this.#run);
      for (const schema of schemas) found.add(schema);
      open = unions
        .flatMap((branches) => this.#choose(branches, value))
        .filter((branch) => isJsonObject(branch) && !found.has(branch));
    }
    return [...found];
  }

  #choose(branches: readonly Schema[], value: unknown): readonly Schema[] {
    const fitting = branches.filter((branch) => this.#fits(branch, value));
    if (fitting.length > 0) return fitting;
    const nearest = this.#nearest(branches, value);
    return nearest === undefined ? [] : [nearest];
  }

  /** Returns the first branch that needs the fewest changes. */
  #nearest(branches: readonly Schema[], value: unknown): Schema | undefined {
    let nearest: Schema | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const branch of branches) {
      const attempt = this.#attempt(() => this.visit([branch], value));
      if (attempt.count < fewest && this.#fits(branch, attempt.value)) {
        nearest = branch;
        fewest = attempt.count;
      }
    }
    return nearest;
  }

  /** Runs `visit` without recording its changes, and counts them. Each unknown member that would be rejected counts as a change. */
  #attempt(visit: () => unknown): { readonly value: unknown; readonly count: number } {
    const { coercions, unknown } = this;
    const before = [coercions.length, unknown.length] as const;
    const value = visit();
    const count = coercions.length - before[0] + unknown.length - before[1];
    coercions.length = before[0];
    unknown.length = before[1];
    return { value, count };
  }

  /** Tells whether the value has the right type. Objects and arrays only need the type, since their members are coerced later. */
  #isOfType(schemas: readonly SchemaObject[], value: unknown): boolean {
    if (typeof value !== "object" || value === null) return schemas.every((schema) => this.#fits(schema, value));
    return schemas.every((schema) => {
      const { type } = schema;
      return type === undefined || [type].flat().includes(typeOf(value));
    });
  }

  #convert(schemas: readonly SchemaObject[], value: unknown): { readonly value: unknown } | undefined {
    if (this.#conversionsDeep >= MAX_CONVERSIONS_DEEP) return undefined;
    this.#conversionsDeep += 1;
    // A string may be parsed once for each branch that is tried.
    if (typeof value === "string") this.#run.spend(value.length >> 2);
    const before = this.coercions.length;
    const unknownBefore = this.unknown.length;
    for (const candidate of conversionsOf(value)) {
      this.#note({ kind: "coerced", pointer: this.#pointer(), from: typeOf(value), to: typeOf(candidate) });
      const coerced = this.visit(schemas, candidate);
      if (schemas.every((schema) => this.#fits(schema, coerced))) {
        this.#conversionsDeep -= 1;
        return { value: coerced };
      }
      this.coercions.length = before;
      this.unknown.length = unknownBefore;
    }
    this.#conversionsDeep -= 1;
    return undefined;
  }

  #visitItems(schemas: readonly SchemaObject[], value: readonly unknown[]): unknown {
    const schemasAt = itemsIn(schemas);
    let changed: unknown[] | undefined;
    for (let index = 0; index < value.length; index += 1) {
      const item = value[index];
      const own = schemasAt(index);
      if (own.length === 0 || this.#isSettled(own, item)) continue;
      const coerced = this.#at(index, () => this.visit(own, item));
      if (coerced === item) continue;
      changed ??= [...value];
      changed[index] = coerced;
    }
    return changed ?? value;
  }

  #visitObject(schemas: readonly SchemaObject[], value: SchemaObject): unknown {
    const memberOf = membersIn(schemas, this.#run);
    const { unknownKeys } = this.#options;
    const changes = new Map<string, unknown>();
    const keys = Object.keys(value);
    for (const key of keys) {
      const member = value[key];
      const { schemas: own, isKnown } = memberOf(key);
      if (!isKnown && unknownKeys !== "keep") {
        const pointer = this.#at(key, () => this.#pointer());
        if (unknownKeys === "reject") this.#addUnknown(pointer);
        else {
          this.#note({ kind: "pruned", pointer });
          changes.set(key, REMOVED);
        }
        continue;
      }
      if (member === null && this.#isLeftOut(schemas, own, key)) {
        const pointer = this.#at(key, () => this.#pointer());
        this.#note({ kind: "coerced", pointer, from: "null", to: "nothing" });
        changes.set(key, REMOVED);
        continue;
      }
      const coerced = this.#at(key, () => this.visit(own, member));
      if (coerced !== member) changes.set(key, coerced);
    }
    if (changes.size === 0) return value;
    // The copy is made last, since copying 300,000 members takes 0.4 s (measured), and most such coercions are stopped before.
    const left = keys.filter((key) => changes.get(key) !== REMOVED);
    return Object.fromEntries(left.map((key) => [key, changes.has(key) ? changes.get(key) : value[key]]));
  }

  /** Tells whether a `null` can only mean that an optional member is missing. */
  #isLeftOut(schemas: readonly SchemaObject[], own: readonly Schema[], key: string): boolean {
    if (!this.#options.coerce || own.every((schema) => this.#fits(schema, null))) return false;
    return !schemas.some(({ required }) => Array.isArray(required) && required.includes(key));
  }

  #fits(schema: Schema, value: unknown): boolean {
    return this.#guide.fits(schema, value, this.#run);
  }

  #at<Result>(step: string | number, visit: () => Result): Result {
    this.#path.push(step);
    const result = visit();
    this.#path.pop();
    return result;
  }

  #pointer(): string {
    return toBoundedPointer(this.#path, MAX_POINTER_LENGTH);
  }

  #note(coercion: ValueCoercion): void {
    if (this.coercions.length >= MAX_COERCIONS) throw new TooManyChanges();
    this.coercions.push(coercion);
  }

  #addUnknown(pointer: string): void {
    if (this.unknown.length >= MAX_COERCIONS) throw new TooManyChanges();
    this.unknown.push(pointer);
  }
}
