// The state of one validation: its fuel and clock, its path in the value, and the issues found so far.
import type { BudgetClock } from "./checks/budget-clock.ts";
import { describeValue } from "./describe.ts";
import { toBoundedPointer } from "./json-pointer.ts";
import type { SchemaIssue, ValidationStopReason } from "./outcome.ts";
import type { SchemaResource } from "./schema/resource.ts";

/** Fuel between two queries of the clock. A unit is 20-50 ns of work, so the clock is read every 0.1-0.2 ms, and never for small values. */
const FUEL_PER_LOOK = 4_096;
const MAX_POINTER_LENGTH = 1_024;

/** Thrown to stop a validation at any depth; caught in compile-schema.ts and coerce.ts. */
export class StopSignal extends Error {
  override readonly name = "StopSignal";
  readonly reason: ValidationStopReason | "needs-guard";

  constructor(reason: ValidationStopReason | "needs-guard") {
    super(reason);
    this.reason = reason;
  }
}

// Created once, since capturing a stack trace takes longer than most validations.
const OUT_OF_TIME = new StopSignal("time");
const NEEDS_GUARD = new StopSignal("needs-guard");

export interface SchemaRunOptions {
  readonly clock: BudgetClock;
  readonly maxIssues: number;
  /** Whether the watchdog of guard.ts runs. Only then may a regex of unknown cost run. */
  readonly guarded: boolean;
}

export class SchemaRun {
  /** If false, the validation stops at the first failure. If true, it continues and reports each issue. */
  collecting = false;
  /** True when the list of issues is full. Every check may then end early. */
  full = false;
  path: (string | number)[] = [];
  readonly issues: SchemaIssue[] = [];
  /** Dynamic scope for `$dynamicRef`: the entered resources, outermost first. */
  readonly scope: SchemaResource[] = [];
  readonly guarded: boolean;
  /** The list that receives reports: `issues`, or a separate one in `collectApart`. */
  #sink: SchemaIssue[] = this.issues;
  #fuel = FUEL_PER_LOOK;
  #maxIssues: number;
  #lastObject: object | undefined;
  #lastKeys: readonly string[] = [];
  readonly #clock: BudgetClock;

  constructor(options: SchemaRunOptions) {
    this.#clock = options.clock;
    this.#maxIssues = options.maxIssues;
    this.guarded = options.guarded;
  }

  /** Spends fuel for work. @throws {StopSignal} "time" when the budget is used up */
  spend(units: number): void {
    this.#fuel -= units;
    if (this.#fuel >= 0) return;
    if (this.#clock.isOver()) throw OUT_OF_TIME;
    this.#fuel = FUEL_PER_LOOK;
  }

  /** Stops the validation unless the watchdog runs. @throws {StopSignal} "needs-guard" */
  requireGuard(): void {
    if (!this.guarded) throw NEEDS_GUARD;
  }

  /** Returns the own keys of an object. Those of the last object are cached, since listing a million keys takes tens of milliseconds. */
  keysOf(object: object): readonly string[] {
    if (this.#lastObject === object) return this.#lastKeys;
    const keys = Object.keys(object);
    this.spend(keys.length >> 2);
    this.#lastObject = object;
    this.#lastKeys = keys;
    return keys;
  }

  /** Reports an issue, if issues are collected. Always returns false, so that a check can end with `return run.report(…)`. */
  report(keyword: string, expected: () => string, got: unknown, gotText?: () => string): false {
    if (!this.collecting || this.full) return false;
    if (this.#sink.length >= this.#maxIssues) {
      this.full = true;
      return false;
    }
    const pointer = toBoundedPointer(this.path, MAX_POINTER_LENGTH);
    const wanted = expected();
    const found = gotText === undefined ? describeValue(got) : gotText();
    // The same part of a schema may be reached in several ways.
    const isKnown = (other: SchemaIssue): boolean =>
      other.pointer === pointer && other.keyword === keyword && other.expected === wanted && other.got === found;
    if (this.#sink.some(isKnown)) return false;
    this.#sink.push({
      pointer,
      keyword,
      expected: wanted,
      got: found,
      message: `Expected ${wanted}, got ${found}`,
    });
    return false;
  }

  /** Runs `check` and returns the issues that it reports, at most `maxIssues`, without adding them to `issues`. */
  collectApart(maxIssues: number, check: () => unknown): SchemaIssue[] {
    const { full } = this;
    const sink = this.#sink;
    const outerMax = this.#maxIssues;
    const apart: SchemaIssue[] = [];
    this.#sink = apart;
    this.#maxIssues = maxIssues;
    check();
    this.#sink = sink;
    this.full = full;
    this.#maxIssues = outerMax;
    return apart;
  }

  /** Adds issues that {@link collectApart} has returned. */
  adopt(issues: readonly SchemaIssue[]): false {
    for (const issue of issues) {
      if (this.#sink.length >= this.#maxIssues) this.full = true;
      else this.#sink.push(issue);
    }
    return false;
  }
}
