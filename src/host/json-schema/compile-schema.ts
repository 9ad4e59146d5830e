// Entry of this folder: compiles untrusted JSON Schemas and validates JSON values against them. The time of a validation is bounded for
// every schema and value. No code is generated from a schema, nothing is fetched for it, and the given object is not changed.

import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import { BudgetClock } from "./checks/budget-clock.ts";
import { runGuarded } from "./checks/guard.ts";
import type { SchemaGuide } from "./coercion/applicable.ts";
import { type CoerceOptions, type CoerceOutcome, coerceValue } from "./coercion/coerce.ts";
import type { ValidationOutcome, ValidationStopReason } from "./outcome.ts";
import { type Dialect, refHidesSiblings } from "./schema/keywords.ts";
import { evaluate, evaluateQuietly, type SchemaNode } from "./schema/node.ts";
import { compileDocument } from "./schema/schema-compiler.ts";
import { copySchema, type Schema } from "./schema/schema-copy.ts";
import { SchemaDocument } from "./schema/schema-document.ts";
import { createReject, type SchemaErrorCode } from "./schema/schema-error.ts";
import { SchemaRun, StopSignal } from "./schema-run.ts";

/**
 * Host time of one validation, as CPU time of its thread. A small pair takes 1-20 µs, 100,000 small objects
 * or a million numbers about 40 ms (measured). Together with parsing a small text in the same turn it stays below 50 ms.
 */
const DEFAULT_BUDGET_MS = 40;
const DEFAULT_MAX_PROBLEMS = 50;
/** CPU time of one coercion, which a host must enable. 30,000 strings take 5 ms, and 50 ms before V8 has optimized the code (measured). */
const COERCE_BUDGET_MS = 80;

/** Attempts of a guarded validation. It is repeated if the thread got less than half of its time as CPU time. */
const MAX_GUARDED_ATTEMPTS = 3;

const STOP_MESSAGES = {
  time: "Validation was stopped: the value and the schema together take too long to check",
  depth: "Validation was stopped: the value and the schema together are nested too deeply",
} as const satisfies Record<ValidationStopReason, string>;

export interface CompileSchemaOptions {
  /** Code of the ToolError for an invalid schema. @default "BUNDLE_FAILED" */
  readonly code?: SchemaErrorCode;
  /** Name of the schema in that error, such as "inputSchema". @default "schema" */
  readonly subject?: string;
}

interface ValidateOptions {
  /** CPU time in ms after which the validation is stopped. Large values need more, and their own thread. @default 40 */
  readonly budgetMs?: number;
  /** Largest number of issues to list. @default 50 */
  readonly maxIssues?: number;
}

/** A compiled schema. It is immutable and can be shared by all calls of a tool. */
export interface CompiledSchema {
  readonly dialect: Dialect;
  /** Whether the cost of a validation does not depend on the size of the value. */
  readonly shallow: boolean;
  /** Whether every object is valid. */
  readonly acceptsObjects: boolean;
  /** Returns the schema as JSON text, which compileSchema compiles to an equal schema. */
  toText(): string;
  /** Validates a JSON value, as JSON.parse returns it. Never throws and never changes the value. */
  validate(value: unknown, options?: ValidateOptions): ValidationOutcome;
  /** Coerces a JSON value to the schema and lists the changes, in at most 80 ms of CPU time. Never throws and never changes the value. */
  coerce(value: unknown, options: CoerceOptions): CoerceOutcome;
}

/**
 * Checks and compiles an untrusted schema. A usual schema takes about 0.1 ms, the worst one within the limits 0.2 s (measured), so keep the
 * result.
 * @throws {ToolError} `options.code` for an invalid JSON Schema, one that exceeds SCHEMA_LIMITS, or one with references outside itself
 */
export function compileSchema(schema: unknown, options: CompileSchemaOptions = {}): CompiledSchema {
  const reject = createReject(options.code ?? "BUNDLE_FAILED", options.subject ?? "schema");
  const document = new SchemaDocument(copySchema(schema, reject), reject);
  const { root, nodeOf } = compileDocument(document, reject);
  const guide: SchemaGuide = {
    root: document.root,
    refHidesSiblings: refHidesSiblings(document.dialect),
    resolve: (part, reference) => document.resolve(part, "$ref", reference).schema,
    fits: (part, value, run) => {
      if (!isJsonObject(part)) return part;
      const node = nodeOf(part);
      return node === undefined || evaluateQuietly(node, value, run, undefined);
    },
  };
  let text: string | undefined;
  return {
    dialect: document.dialect,
    shallow: isShallow(document.root),
    acceptsObjects: acceptsObjects(document.root),
    toText: () => {
      text ??= JSON.stringify(document.root);
      return text;
    },
    validate: (value, { budgetMs = DEFAULT_BUDGET_MS, maxIssues = DEFAULT_MAX_PROBLEMS } = {}) =>
      validate(root, value, budgetMs, maxIssues),
    coerce: (value, options) => {
      const clock = new BudgetClock(COERCE_BUDGET_MS);
      return coerceValue(value, options, guide, new SchemaRun({ clock, maxIssues: 1, guarded: false }));
    },
  };
}

/** Keywords that check nothing. */
const ANNOTATIONS: readonly string[] = [
  ...["$schema", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated"],
];
/** Keywords that check the value itself but not its members, and annotations. */
const SHALLOW_KEYWORDS: readonly string[] = ["type", "required", ...ANNOTATIONS];

const hasOnly = (schema: Schema, keywords: readonly string[]): boolean =>
  !isJsonObject(schema) || Object.keys(schema).every((keyword) => keywords.includes(keyword));

const isShallow = (schema: Schema): boolean => hasOnly(schema, SHALLOW_KEYWORDS);

function acceptsObjects(schema: Schema): boolean {
  if (!isJsonObject(schema)) return schema;
  const { type = "object" } = schema;
  return hasOnly(schema, ["type", ...ANNOTATIONS]) && [type].flat().includes("object");
}

function validate(root: SchemaNode, value: unknown, budgetMs: number, maxIssues: number): ValidationOutcome {
  const clock = new BudgetClock(budgetMs);
  // For a long budget, query the clock once, which takes a microsecond. From then on, time of other threads does not count.
  if (budgetMs > DEFAULT_BUDGET_MS) clock.usedMs();
  const direct = new Validation(root, value, new SchemaRun({ clock, maxIssues, guarded: false }));
  const reason = direct.proceed();
  if (reason !== "needs-guard") return direct.outcome(reason);
  return validateGuarded(root, value, Math.max(1, budgetMs - clock.usedMs()), maxIssues);
}

/** Repeats a validation under a watchdog that can end a slow regex. The watchdog uses wall time, so a starved validation is repeated. */
function validateGuarded(root: SchemaNode, value: unknown, budgetMs: number, maxIssues: number): ValidationOutcome {
  for (let attempt = 1; ; attempt++) {
    const clock = new BudgetClock(budgetMs);
    clock.usedMs();
    const guarded = new Validation(root, value, new SchemaRun({ clock, maxIssues, guarded: true }));
    let stopped: StopSignal["reason"] | undefined;
    const ended = runGuarded(() => {
      stopped = guarded.proceed();
    }, budgetMs);
    if (ended) return guarded.outcome(stopped);
    const wasStarved = clock.usedMs() < budgetMs / 2;
    if (!wasStarved || attempt === MAX_GUARDED_ATTEMPTS) return guarded.outcome("time");
  }
}

/** Validates in two rounds: a quick check for validity, and a second round that collects the issues of an invalid value. */
class Validation {
  readonly #root: SchemaNode;
  readonly #value: unknown;
  readonly #run: SchemaRun;
  #valid: boolean | undefined;

  constructor(root: SchemaNode, value: unknown, run: SchemaRun) {
    this.#root = root;
    this.#value = value;
    this.#run = run;
  }

  /** Runs the validation. Returns the reason if it was stopped, and undefined if it is complete. */
  proceed(): StopSignal["reason"] | undefined {
    const run = this.#run;
    try {
      this.#valid = evaluate(this.#root, this.#value, run, undefined);
      if (this.#valid) return undefined;
      run.collecting = true;
      evaluate(this.#root, this.#value, run, undefined);
      return undefined;
    } catch (error) {
      if (error instanceof StopSignal) return error.reason;
      // V8 throws a RangeError when its stack overflows, and a SyntaxError when the backtrack stack of a regex does.
      if (error instanceof RangeError || error instanceof SyntaxError) return "depth";
      throw error;
    }
  }

  outcome(stopped: StopSignal["reason"] | undefined): ValidationOutcome {
    if (this.#valid === true) return { valid: true };
    const { issues, full } = this.#run;
    if (this.#valid === false && (stopped === undefined || issues.length > 0)) {
      return { valid: false, stopped: false, issues, truncated: full || stopped !== undefined };
    }
    const reason = stopped === "depth" ? "depth" : "time";
    return { valid: false, stopped: true, reason, message: STOP_MESSAGES[reason] };
  }
}
