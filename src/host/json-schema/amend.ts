// A value brought closer to its schema, and a list of all that was done to it: members that the schema does not know, nulls for what may
// be left out, scalars of the wrong type. What comes out is to be validated as any value is.
import { applicableTo, itemsIn, membersIn, type SchemaGuide } from "./applicable.ts";
import { conversionsOf } from "./conversions.ts";
import { typeOf } from "./describe.ts";
import { toBoundedPointer } from "./json-pointer.ts";
import { type Run, StopSignal } from "./run.ts";
import { isObject, type Schema, type SchemaObject } from "./schema-copy.ts";

export interface AmendOptions {
  /** What is done with members that the schema does not know; a value that is refused for them is not amended. */
  readonly unknownKeys: "keep" | "prune" | "refuse";
  /** Values that the schema refuses become what they stand for, where nothing is lost; `null` for an optional member leaves it out. */
  readonly coerce: boolean;
  /** Only the latter. */
  readonly nullsOnly?: boolean;
}

/** One thing that was changed. */
export type ValueAmendment =
  | { readonly kind: "pruned"; readonly pointer: string }
  /** `from` and `to` are JSON types; `to` is "nothing" for a member that was left out. */
  | { readonly kind: "coerced"; readonly pointer: string; readonly from: string; readonly to: string };

export interface AmendOutcome {
  /** The given value itself where nothing was changed. */
  readonly value: unknown;
  readonly amendments: readonly ValueAmendment[];
  /** Pointers of unknown members, where those are refused. */
  readonly unknown: readonly string[];
  /** Whether it was given up: too long, too deep, too much. Then nothing was changed. */
  readonly stopped: boolean;
}

/** More than a slip. */
const MAX_AMENDMENTS = 1_000;
const MAX_POINTER_CHARS = 1_024;
/** Text in text in text: each level is a conversion of what another one gave. */
const MAX_CONVERSIONS_DEEP = 2;

/** Of a member that is not to be there. */
const LEFT_OUT = Symbol("left out");

class TooMuch extends Error {}

export function amendValue(value: unknown, options: AmendOptions, guide: SchemaGuide, run: Run): AmendOutcome {
  const amending = new Amending(options, guide, run);
  try {
    const amended = amending.visit([guide.root], value);
    return { value: amended, amendments: amending.amendments, unknown: amending.unknown, stopped: false };
  } catch (error) {
    // V8 throws a RangeError where its stack ends.
    if (!(error instanceof StopSignal || error instanceof TooMuch || error instanceof RangeError)) throw error;
    return { value, amendments: [], unknown: [], stopped: true };
  }
}

class Amending {
  readonly amendments: ValueAmendment[] = [];
  readonly unknown: string[] = [];
  readonly #options: AmendOptions;
  readonly #guide: SchemaGuide;
  readonly #run: Run;
  readonly #path: (string | number)[] = [];
  #conversionsDeep = 0;

  constructor(options: AmendOptions, guide: SchemaGuide, run: Run) {
    this.#options = options;
    this.#guide = guide;
    this.#run = run;
  }

  /** The value as all of `given` would have it, as far as that can be done. */
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
    return isObject(value) ? this.#visitObject(schemas, value) : value;
  }

  /** What fits needs no more than that, unless keys are to be looked at. Most values are settled here. */
  #isSettled(given: readonly Schema[], value: unknown): boolean {
    const { unknownKeys, coerce, nullsOnly } = this.#options;
    const isContainer = typeof value === "object" && value !== null;
    if (!isContainer && (!coerce || nullsOnly === true)) return true;
    return (!isContainer || unknownKeys === "keep") && given.every((schema) => this.#fits(schema, value));
  }

  /** All that applies: of each union the branches that the value fits, else the nearest one. */
  #applicable(given: readonly Schema[], value: unknown): readonly SchemaObject[] {
    const found = new Set<SchemaObject>();
    let open = given;
    while (open.length > 0) {
      const { schemas, unions } = applicableTo(open, value, this.#guide, this.#run);
      for (const schema of schemas) found.add(schema);
      open = unions
        .flatMap((branches) => this.#choose(branches, value))
        .filter((branch) => isObject(branch) && !found.has(branch));
    }
    return [...found];
  }

  #choose(branches: readonly Schema[], value: unknown): readonly Schema[] {
    const fitting = branches.filter((branch) => this.#fits(branch, value));
    if (fitting.length > 0) return fitting;
    const nearest = this.#nearest(branches, value);
    return nearest === undefined ? [] : [nearest];
  }

  /** The branch that the value needs the fewest amendments for; the first of those. */
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

  /** Does it, notes nothing of it. Members that would be refused are left where they are, and cost as much as a change. */
  #attempt(visit: () => unknown): { readonly value: unknown; readonly count: number } {
    const { amendments, unknown } = this;
    const before = [amendments.length, unknown.length] as const;
    const value = visit();
    const count = amendments.length - before[0] + unknown.length - before[1];
    amendments.length = before[0];
    unknown.length = before[1];
    return { value, count };
  }

  /** Whether the value can be what the schemas ask for: an object or array whose members may be amended, else only as it is. */
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
    // A text may be parsed, for each branch that it is tried with.
    if (typeof value === "string") this.#run.spend(value.length >> 2);
    const before = this.amendments.length;
    const unknownBefore = this.unknown.length;
    for (const candidate of conversionsOf(value)) {
      this.#note({ kind: "coerced", pointer: this.#pointer(), from: typeOf(value), to: typeOf(candidate) });
      const amended = this.visit(schemas, candidate);
      if (schemas.every((schema) => this.#fits(schema, amended))) {
        this.#conversionsDeep -= 1;
        return { value: amended };
      }
      this.amendments.length = before;
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
      const amended = this.#at(index, () => this.visit(own, item));
      if (amended === item) continue;
      changed ??= [...value];
      changed[index] = amended;
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
        if (unknownKeys === "refuse") this.#refuse(pointer);
        else {
          this.#note({ kind: "pruned", pointer });
          changes.set(key, LEFT_OUT);
        }
        continue;
      }
      if (member === null && this.#isLeftOut(schemas, own, key)) {
        const pointer = this.#at(key, () => this.#pointer());
        this.#note({ kind: "coerced", pointer, from: "null", to: "nothing" });
        changes.set(key, LEFT_OUT);
        continue;
      }
      const amended = this.#at(key, () => this.visit(own, member));
      if (amended !== member) changes.set(key, amended);
    }
    if (changes.size === 0) return value;
    // Only now: a copy of 300,000 members takes 0.4 s [m], and of so many the most are given up.
    const left = keys.filter((key) => changes.get(key) !== LEFT_OUT);
    return Object.fromEntries(left.map((key) => [key, changes.has(key) ? changes.get(key) : value[key]]));
  }

  /** Whether a `null` can only mean that an optional member is not there. */
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
    return toBoundedPointer(this.#path, MAX_POINTER_CHARS);
  }

  #note(amendment: ValueAmendment): void {
    if (this.amendments.length >= MAX_AMENDMENTS) throw new TooMuch();
    this.amendments.push(amendment);
  }

  #refuse(pointer: string): void {
    if (this.unknown.length >= MAX_AMENDMENTS) throw new TooMuch();
    this.unknown.push(pointer);
  }
}
