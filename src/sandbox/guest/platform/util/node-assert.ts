// node:assert and its strict form. Messages show both values, without a line-by-line diff.
import { invalidArgument, nodeError } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { inspect, isDeepLooseEqual, isDeepStrictEqual, isPartialDeepEqual } from "./node-util.ts";

interface AssertionOptions {
  readonly message?: unknown;
  readonly actual?: unknown;
  readonly expected?: unknown;
  readonly operator?: string;
  readonly stackStartFn?: unknown;
}

/** A failed assertion, with the default message. */
interface Failure extends AssertionOptions {
  readonly text?: string;
}

const OPERATORS: { readonly [operator: string]: string } = {
  deepStrictEqual: "Expected values to be strictly deep-equal:",
  strictEqual: "Expected values to be strictly equal:",
  deepEqual: "Expected values to be loosely deep-equal:",
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  partialDeepStrictEqual: "Expected values to be partially and strictly deep-equal:",
};

const show = (value: unknown): string =>
  inspect(value, { depth: 1_000, maxArrayLength: 1_000, customInspect: false, sorted: true });

function describe({ actual, expected, operator = "fail" }: AssertionOptions): string {
  const head = OPERATORS[operator];
  if (operator === "==" || operator === "!=") return `${show(actual)} ${operator} ${show(expected)}`;
  if (head === undefined) return `${show(actual)} ${operator} ${show(expected)}`;
  const isPlain = typeof actual !== "object" && typeof actual !== "function";
  if (operator.startsWith("not")) return isPlain ? `${head} ${show(actual)}` : `${head}\n\n${show(actual)}\n`;
  if (isPlain && typeof expected !== "object") return `${head}\n\n${show(actual)} !== ${show(expected)}\n`;
  return `${head}\n+ actual - expected\n\n+ ${show(actual).replaceAll("\n", "\n+ ")}\n- ${show(expected).replaceAll("\n", "\n- ")}\n`;
}

export class AssertionError extends Error {
  readonly code = "ERR_ASSERTION";
  generatedMessage: boolean;
  readonly actual: unknown;
  readonly expected: unknown;
  readonly operator: string | undefined;
  override name = "AssertionError";

  constructor(options: AssertionOptions) {
    if (typeof options !== "object" || options === null) throw invalidArgument("options", "of type object", options);
    super(options.message === undefined ? describe(options) : String(options.message));
    this.generatedMessage = options.message === undefined;
    this.actual = options.actual;
    this.expected = options.expected;
    this.operator = options.operator;
    Object.defineProperty(this, "name", {
      enumerable: false,
      writable: true,
      configurable: true,
      value: "AssertionError",
    });
    const { captureStackTrace } = Error as { captureStackTrace?: (error: object, from?: unknown) => void };
    captureStackTrace?.(this, options.stackStartFn);
  }
}

type Check = (...args: never[]) => unknown;

function fail({ text, ...options }: Failure, message: unknown, from: Check): never {
  if (message instanceof Error) throw message;
  const error = new AssertionError({ ...options, message: message ?? text, stackStartFn: from });
  throw message === undefined ? Object.assign(error, { generatedMessage: true }) : error;
}

function ok(...args: readonly unknown[]): void {
  const [value, message] = args;
  if (value) return;
  const text = args.length === 0 ? "No value argument passed to `assert.ok()`" : message;
  const shown = text ?? "The expression evaluated to a falsy value";
  const options = { actual: value, expected: true, operator: "==" };
  if (shown instanceof Error) throw shown;
  const error = new AssertionError({ ...options, message: shown, stackStartFn: ok });
  throw Object.assign(error, { generatedMessage: message === undefined });
}

type Comparison = (actual: unknown, expected: unknown, message?: unknown) => void;

function comparison(operator: string, isRight: (actual: unknown, expected: unknown) => boolean): Comparison {
  const check: Comparison = (...args) => {
    if (args.length < 2)
      throw nodeError(TypeError, "ERR_MISSING_ARGS", 'The "actual" and "expected" arguments must be specified');
    const [actual, expected, message] = args;
    if (!isRight(actual, expected)) fail({ actual, expected, operator }, message, check);
  };
  Object.defineProperty(check, "name", { value: operator });
  return check;
}

const bothNaN = (a: unknown, b: unknown): boolean => Number.isNaN(a) && Number.isNaN(b);
// biome-ignore lint/suspicious/noDoubleEquals: assert.equal() is defined by loose equality
const looselyEqual = (a: unknown, b: unknown): boolean => a == b || bothNaN(a, b);

/** Says what was thrown instead of an error of the expected class. */
function receivedClass(thrown: unknown): string {
  if (!(thrown instanceof Error)) return `"${show(thrown)}"`;
  const { constructor: made, name, message } = thrown;
  return `"${made?.name || name}"\n\nError message:\n\n${message}`;
}

/** Checks that a thrown value matches the expected one. Throws an AssertionError if it does not. */
function fits(thrown: unknown, expected: unknown, message: unknown, from: Check): void {
  if (expected === undefined) return;
  if (expected instanceof RegExp) {
    if (expected.test(String(thrown))) return;
    const text = `The input did not match the regular expression ${show(expected)}. Input:\n\n${show(String(thrown))}\n`;
    fail({ actual: thrown, expected, operator: from.name, text }, message, from);
  }
  if (typeof expected === "object" && expected !== null) {
    const expectedFields = expected as { readonly [key: string]: unknown };
    const keys = expected instanceof Error ? [...Object.keys(expected), "name", "message"] : Object.keys(expected);
    const got = thrown as { readonly [key: string]: unknown };
    for (const key of keys) {
      const [a, b] = [got?.[key], expectedFields[key]];
      if (b instanceof RegExp && typeof a === "string" ? b.test(a) : isDeepStrictEqual(a, b)) continue;
      fail({ actual: thrown, expected, operator: from.name }, message, from);
    }
    return;
  }
  if (typeof expected !== "function")
    throw invalidArgument("expected", "of type function or an instance of RegExp, Error, or Object", expected);
  const { prototype } = expected as { prototype?: unknown };
  if (prototype !== undefined && thrown instanceof (expected as new () => unknown)) return;
  if (expected.prototype instanceof Error) {
    const text = `The error is expected to be an instance of "${expected.name}". Received ${receivedClass(thrown)}`;
    fail({ actual: thrown, expected, operator: from.name, text }, message, from);
  }
  const answer: unknown = Reflect.apply(expected, {}, [thrown]);
  if (answer === true) return;
  const subject = expected.name === "" ? "The" : `The "${expected.name}"`;
  const caught = thrown instanceof Error ? `\n\nCaught error:\n\n${String(thrown)}` : "";
  const text = `${subject} validation function is expected to return "true". Received ${show(answer)}${caught}`;
  fail({ actual: thrown, expected, operator: from.name, text }, message, from);
}

const splitMessage = (expected: unknown, message: unknown): readonly [unknown, unknown] =>
  typeof expected === "string" ? [undefined, expected] : [expected, message];

function throws(run: () => unknown, given?: unknown, note?: unknown): void {
  if (typeof run !== "function") throw invalidArgument("fn", "of type function", run);
  const [expected, message] = splitMessage(given, note);
  let thrown: unknown;
  try {
    run();
  } catch (error) {
    fits(error, expected, message, throws);
    return;
  }
  fail({ actual: thrown, expected, operator: "throws" }, message ?? missing("exception", expected), throws);
}

const missing = (what: string, expected: unknown): string =>
  `Missing expected ${what}${typeof expected === "function" && expected.name !== "" ? ` (${expected.name}).` : "."}`;

function toPromise(run: unknown): Promise<unknown> {
  const promise = typeof run === "function" ? (run as () => unknown)() : run;
  if (typeof (promise as { then?: unknown } | undefined)?.then !== "function") {
    throw invalidArgument("promiseFn", "of type function or an instance of Promise", run);
  }
  return Promise.resolve(promise);
}

async function rejects(run: unknown, given?: unknown, note?: unknown): Promise<void> {
  const [expected, message] = splitMessage(given, note);
  try {
    await toPromise(run);
  } catch (error) {
    fits(error, expected, message, rejects);
    return;
  }
  fail({ actual: undefined, expected, operator: "rejects" }, message ?? missing("rejection", expected), rejects);
}

function unwanted(what: string, error: unknown, message: unknown, from: Check): never {
  const text = `Got unwanted ${what}${typeof message === "string" ? `: ${message}` : "."}\nActual message: "${String((error as Error)?.message)}"`;
  return fail(
    { actual: error, expected: undefined, operator: from.name },
    message instanceof Error ? message : text,
    from,
  );
}

function doesNotThrow(run: () => unknown, given?: unknown, note?: unknown): void {
  const [, message] = splitMessage(given, note);
  try {
    run();
  } catch (error) {
    unwanted("exception", error, message, doesNotThrow);
  }
}

async function doesNotReject(run: unknown, given?: unknown, note?: unknown): Promise<void> {
  const [, message] = splitMessage(given, note);
  try {
    await toPromise(run);
  } catch (error) {
    unwanted("rejection", error, message, doesNotReject);
  }
}

function ifError(value: unknown): void {
  if (value === null || value === undefined) return;
  const shown = value instanceof Error ? value.message || value.constructor.name : show(value);
  fail({ actual: value, expected: null, operator: "ifError" }, `ifError got unwanted exception: ${shown}`, ifError);
}

function matching(operator: "match" | "doesNotMatch"): Comparison {
  const check: Comparison = (text, pattern, message) => {
    if (!(pattern instanceof RegExp)) throw invalidArgument("regexp", "an instance of RegExp", pattern);
    if (typeof text === "string" && pattern.test(text) === (operator === "match")) return;
    const head =
      typeof text !== "string"
        ? `The "string" argument must be of type string. Received type ${typeof text} (${show(text)})`
        : `The input ${operator === "match" ? "did not match" : "was expected to not match"} the regular expression ${show(pattern)}. Input:\n\n${show(text)}\n`;
    fail({ actual: text, expected: pattern, operator, text: head }, message, check);
  };
  return check;
}

const not =
  (test: (a: unknown, b: unknown) => boolean) =>
  (a: unknown, b: unknown): boolean =>
    !test(a, b);

const shared = {
  AssertionError,
  deepStrictEqual: comparison("deepStrictEqual", isDeepStrictEqual),
  doesNotMatch: matching("doesNotMatch"),
  doesNotReject,
  doesNotThrow,
  fail: (message: unknown = "Failed"): never => fail({ operator: "fail" }, message, shared.fail),
  ifError,
  match: matching("match"),
  notDeepStrictEqual: comparison("notDeepStrictEqual", not(isDeepStrictEqual)),
  notStrictEqual: comparison("notStrictEqual", not(Object.is)),
  ok,
  partialDeepStrictEqual: comparison("partialDeepStrictEqual", isPartialDeepEqual),
  rejects,
  strictEqual: comparison("strictEqual", Object.is),
  throws,
};

/** In the strict form the loose names refer to the strict checks. */
const strict = Object.assign((...args: readonly unknown[]): void => ok(...args), shared, {
  equal: shared.strictEqual,
  notEqual: shared.notStrictEqual,
  deepEqual: shared.deepStrictEqual,
  notDeepEqual: shared.notDeepStrictEqual,
});
const assert = Object.assign((...args: readonly unknown[]): void => ok(...args), shared, {
  equal: comparison("==", looselyEqual),
  notEqual: comparison("!=", not(looselyEqual)),
  deepEqual: comparison("deepEqual", isDeepLooseEqual),
  notDeepEqual: comparison("notDeepEqual", not(isDeepLooseEqual)),
  strict,
});
Object.assign(strict, { strict });
Object.defineProperty(assert, "name", { value: "ok" });
Object.defineProperty(strict, "name", { value: "strict" });

const NO_INSTANCES = "use the functions of node:assert";
for (const one of [assert, strict]) addUnsupported(one, "assert", NO_INSTANCES, "Assert CallTracker");

export const builtins = { assert, "assert/strict": strict };
