// Validation of JSON values against foreign schemas: the entry of this folder. Bounded in time whatever the pair; nothing is
// generated from a schema, fetched for it, or changed in it.
import { type AmendOptions, type AmendOutcome, amendValue } from "./amend.ts";
import type { SchemaGuide } from "./applicable.ts";
import { BudgetClock } from "./budget-clock.ts";
import { runGuarded } from "./guard.ts";
import { type Dialect, refHidesSiblings } from "./keywords.ts";
import { evaluate, evaluateQuietly, type SchemaNode } from "./node.ts";
import type { StopReason, ValidationOutcome } from "./outcome.ts";
import { Run, StopSignal } from "./run.ts";
import { compileDocument } from "./schema-compiler.ts";
import { copySchema, isObject, type Schema } from "./schema-copy.ts";
import { SchemaDocument } from "./schema-document.ts";
import { createRefuse, type SchemaErrorCode } from "./schema-error.ts";

/**
 * Host time of one validation, as CPU time of its thread. A small pair takes 1-20 µs, 100,000 small objects
 * or a million numbers about 40 ms [m]. With the parse of a small text in the same turn it stays below 50 ms.
 */
const DEFAULT_BUDGET_MS = 40;
const DEFAULT_MAX_PROBLEMS = 50;
/** Only where a host has asked for it. 30,000 texts in a list take 5 ms, ten times that before V8 has compiled us [m]. */
const AMEND_BUDGET_MS = 80;

/** A thread that got less than half of its time to run is given it again, this often in all. */
const MAX_GUARDED_ATTEMPTS = 3;

const STOP_MESSAGES = {
  time: "Validation was stopped: the value and the schema together take too long to check",
  depth: "Validation was stopped: the value and the schema together are nested too deeply",
} as const satisfies Record<StopReason, string>;

export interface CompileSchemaOptions {
  /** The code of the ToolError for a schema that cannot be used; BUNDLE_FAILED unless stated. */
  readonly code?: SchemaErrorCode;
  /** What the schema is called in that error, such as "inputSchema"; "schema" unless stated. */
  readonly subject?: string;
}

interface ValidateOptions {
  /** Milliseconds of CPU time after which the validation is stopped; 40 unless stated. A large value deserves more, in a thread of its own. */
  readonly budgetMs?: number;
  /** Problems listed at most; 50 unless stated. */
  readonly maxProblems?: number;
}

/** A schema ready to check values; immutable, may be shared by all calls of a tool. */
export interface CompiledSchema {
  readonly dialect: Dialect;
  /** Whether a validation costs next to nothing however large the value is. */
  readonly shallow: boolean;
  /** Whether every object fits, whatever is in it. */
  readonly acceptsObjects: boolean;
  /** The schema as JSON text, of which compileSchema makes the same again. */
  toText(): string;
  /** Checks a JSON value (as JSON.parse gives it); never throws, never changes it. */
  validate(value: unknown, options?: ValidateOptions): ValidationOutcome;
  /** Brings a JSON value closer to the schema and tells what was changed, in 80 ms of CPU time at most; never throws, never changes it. */
  amend(value: unknown, options: AmendOptions): AmendOutcome;
}

/**
 * Checks a foreign schema and makes it ready. Costs about 0.1 ms for a usual one and 0.2 s for the worst within the bounds [m]: keep what it gives.
 * @throws {ToolError} `options.code` for what is no JSON Schema, too large (see SCHEMA_LIMITS), or refers to anything outside itself
 */
export function compileSchema(schema: unknown, options: CompileSchemaOptions = {}): CompiledSchema {
  const refuse = createRefuse(options.code ?? "BUNDLE_FAILED", options.subject ?? "schema");
  const document = new SchemaDocument(copySchema(schema, refuse), refuse);
  const { root, nodeOf } = compileDocument(document, refuse);
  const guide: SchemaGuide = {
    root: document.root,
    refHidesSiblings: refHidesSiblings(document.dialect),
    resolve: (part, reference) => document.resolve(part, "$ref", reference).schema,
    fits: (part, value, run) => {
      if (!isObject(part)) return part;
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
    validate: (value, { budgetMs = DEFAULT_BUDGET_MS, maxProblems = DEFAULT_MAX_PROBLEMS } = {}) =>
      validate(root, value, budgetMs, maxProblems),
    amend: (value, options) => {
      const clock = new BudgetClock(AMEND_BUDGET_MS);
      return amendValue(value, options, guide, new Run({ clock, maxProblems: 1, guarded: false }));
    },
  };
}

/** Keywords that look at nothing. */
const ANNOTATIONS: readonly string[] = [
  ...["$schema", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated"],
];
/** And those that look at the value itself, not at its members. */
const SHALLOW_KEYWORDS: readonly string[] = ["type", "required", ...ANNOTATIONS];

const hasOnly = (schema: Schema, keywords: readonly string[]): boolean =>
  !isObject(schema) || Object.keys(schema).every((keyword) => keywords.includes(keyword));

const isShallow = (schema: Schema): boolean => hasOnly(schema, SHALLOW_KEYWORDS);

function acceptsObjects(schema: Schema): boolean {
  if (!isObject(schema)) return schema;
  const { type = "object" } = schema;
  return hasOnly(schema, ["type", ...ANNOTATIONS]) && [type].flat().includes("object");
}

function validate(root: SchemaNode, value: unknown, budgetMs: number, maxProblems: number): ValidationOutcome {
  const clock = new BudgetClock(budgetMs);
  // A long one is worth the microsecond of a first look, from which on it counts no time in which other threads ran.
  if (budgetMs > DEFAULT_BUDGET_MS) clock.usedMs();
  const direct = new Validation(root, value, new Run({ clock, maxProblems, guarded: false }));
  const reason = direct.proceed();
  if (reason !== "needs-guard") return direct.outcome(reason);
  return validateGuarded(root, value, Math.max(1, budgetMs - clock.usedMs()), maxProblems);
}

/** For a regex of unknown cost: begins again, with a watchdog that can end it. That one goes by the wall clock, hence the repeats. */
function validateGuarded(root: SchemaNode, value: unknown, budgetMs: number, maxProblems: number): ValidationOutcome {
  for (let attempt = 1; ; attempt++) {
    const clock = new BudgetClock(budgetMs);
    clock.usedMs();
    const guarded = new Validation(root, value, new Run({ clock, maxProblems, guarded: true }));
    let stopped: StopSignal["reason"] | undefined;
    const ended = runGuarded(() => {
      stopped = guarded.proceed();
    }, budgetMs);
    if (ended) return guarded.outcome(stopped);
    const wasStarved = clock.usedMs() < budgetMs / 2;
    if (!wasStarved || attempt === MAX_GUARDED_ATTEMPTS) return guarded.outcome("time");
  }
}

/** Two rounds: is it valid, which is quick; and only when it is not, everything that is wrong with it. */
class Validation {
  readonly #root: SchemaNode;
  readonly #value: unknown;
  readonly #run: Run;
  #valid: boolean | undefined;

  constructor(root: SchemaNode, value: unknown, run: Run) {
    this.#root = root;
    this.#value = value;
    this.#run = run;
  }

  /** Why it had to stop; undefined when it came to its end. */
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
      // V8 throws a RangeError where its stack ends, and a regex of its own where its backtrack stack does.
      if (error instanceof RangeError || error instanceof SyntaxError) return "depth";
      throw error;
    }
  }

  outcome(stopped: StopSignal["reason"] | undefined): ValidationOutcome {
    if (this.#valid === true) return { valid: true };
    const { problems, full } = this.#run;
    if (this.#valid === false && (stopped === undefined || problems.length > 0)) {
      return { valid: false, stopped: false, problems, truncated: full || stopped !== undefined };
    }
    const reason = stopped === "depth" ? "depth" : "time";
    return { valid: false, stopped: true, reason, message: STOP_MESSAGES[reason] };
  }
}
