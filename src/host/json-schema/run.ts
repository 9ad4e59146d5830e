// The state of one validation: its fuel and clock, where it is in the instance, and the problems found so far.
import type { BudgetClock } from "./budget-clock.ts";
import { describeValue } from "./describe.ts";
import { toBoundedPointer } from "./json-pointer.ts";
import type { SchemaProblem, StopReason } from "./outcome.ts";
import type { Resource } from "./resource.ts";

/** A unit is about 20-50 ns of work, so the clock is read every 0.1-0.2 ms; a small pair never reads it, and noise cannot stop it. */
const FUEL_PER_LOOK = 4_096;
const MAX_POINTER_CHARS = 1_024;

/** Thrown to leave a validation from any depth; caught in compile-schema.ts only. */
export class StopSignal extends Error {
  override readonly name = "StopSignal";
  readonly reason: StopReason | "needs-guard";

  constructor(reason: StopReason | "needs-guard") {
    super(reason);
    this.reason = reason;
  }
}

// Made once: an error's stack costs more than most validations.
const OUT_OF_TIME = new StopSignal("time");
const NEEDS_GUARD = new StopSignal("needs-guard");

export interface SchemaRunOptions {
  readonly clock: BudgetClock;
  readonly maxProblems: number;
  /** Whether a timer outside JavaScript watches: only then may an unproven regex run. */
  readonly guarded: boolean;
}

export class Run {
  /** False: answer yes or no, stop at the first failure. True: go on and report each problem. */
  collecting = false;
  /** More problems than fit: every check may end early, the answer is known. */
  full = false;
  path: (string | number)[] = [];
  readonly problems: SchemaProblem[] = [];
  /** Dynamic scope for `$dynamicRef`: the resources entered, outermost first. */
  readonly scope: Resource[] = [];
  readonly guarded: boolean;
  /** Where reports go: `problems`, or a list apart. A stopped run can leave this one behind, never mixed into the other. */
  #sink: SchemaProblem[] = this.problems;
  #fuel = FUEL_PER_LOOK;
  #maxProblems: number;
  #lastObject: object | undefined;
  #lastKeys: readonly string[] = [];
  readonly #clock: BudgetClock;

  constructor(options: SchemaRunOptions) {
    this.#clock = options.clock;
    this.#maxProblems = options.maxProblems;
    this.guarded = options.guarded;
  }

  /** Pays for work. @throws {StopSignal} "time", once the budget is used up */
  spend(units: number): void {
    this.#fuel -= units;
    if (this.#fuel >= 0) return;
    if (this.#clock.isOver()) throw OUT_OF_TIME;
    this.#fuel = FUEL_PER_LOOK;
  }

  /** Ends this run unless a timer outside watches it. @throws {StopSignal} "needs-guard" */
  requireGuard(): void {
    if (!this.guarded) throw NEEDS_GUARD;
  }

  /** The own keys of an object; the last object's are kept, since V8 lists a million of them in tens of milliseconds. */
  keysOf(object: object): readonly string[] {
    if (this.#lastObject === object) return this.#lastKeys;
    const keys = Object.keys(object);
    this.spend(keys.length >> 2);
    this.#lastObject = object;
    this.#lastKeys = keys;
    return keys;
  }

  /** Always false, so that a check can end with `return run.report(…)`. Texts are made only where they will be read. */
  report(keyword: string, expected: () => string, got: unknown, gotText?: () => string): false {
    if (!this.collecting || this.full) return false;
    if (this.#sink.length >= this.#maxProblems) {
      this.full = true;
      return false;
    }
    const pointer = toBoundedPointer(this.path, MAX_POINTER_CHARS);
    const wanted = expected();
    const found = gotText === undefined ? describeValue(got) : gotText();
    const where = pointer === "" ? "" : ` at ${pointer}`;
    // The same part of a schema may be reached by several ways.
    const isKnown = (other: SchemaProblem): boolean =>
      other.pointer === pointer && other.keyword === keyword && other.expected === wanted && other.got === found;
    if (this.#sink.some(isKnown)) return false;
    this.#sink.push({
      pointer,
      keyword,
      expected: wanted,
      got: found,
      message: `Expected ${wanted}${where}, got ${found}`,
    });
    return false;
  }

  /** Runs `check` apart and gives the problems it reports, at most `maxProblems`. */
  collectApart(maxProblems: number, check: () => unknown): SchemaProblem[] {
    const { full } = this;
    const sink = this.#sink;
    const outerMax = this.#maxProblems;
    const apart: SchemaProblem[] = [];
    this.#sink = apart;
    this.#maxProblems = maxProblems;
    check();
    this.#sink = sink;
    this.full = full;
    this.#maxProblems = outerMax;
    return apart;
  }

  /** Takes over problems that {@link collectApart} gave. */
  adopt(problems: readonly SchemaProblem[]): false {
    for (const problem of problems) {
      if (this.#sink.length >= this.#maxProblems) this.full = true;
      else this.#sink.push(problem);
    }
    return false;
  }
}
