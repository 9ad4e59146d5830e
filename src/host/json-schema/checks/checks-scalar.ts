// Keywords about a single value: type, const, enum, numbers and strings.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { formatConstant, formatCount, formatList, quoteShortened } from "../describe.ts";
import type { Builder } from "../schema/node.ts";
import { ownProperty } from "../schema/schema-copy.ts";
import { equalJson } from "./equality.ts";
import { FORMATS } from "./formats.ts";
import { Pattern } from "./pattern.ts";

type Test = (value: unknown) => boolean;

/** A Map with one test per type is faster than a switch. Most of a validation's time is spent here. */
const TYPE_TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["string", (value) => typeof value === "string"],
  ["number", (value) => typeof value === "number"],
  ["integer", Number.isInteger],
  ["boolean", (value) => typeof value === "boolean"],
  ["null", (value) => value === null],
  ["array", Array.isArray],
  ["object", isJsonObject],
]);

const buildType: Builder = (setting) => {
  const types: readonly string[] = Array.isArray(setting) ? setting : [setting];
  const tests = types.flatMap((type) => TYPE_TESTS.get(type) ?? []);
  const [only] = tests;
  const expected = (): string => types.join(" or ");
  if (tests.length === 1 && only !== undefined) {
    return (value, run) => only(value) || run.report("type", expected, value);
  }
  return (value, run) => tests.some((test) => test(value)) || run.report("type", expected, value);
};

const buildConst: Builder = (setting) => (value, run) =>
  equalJson(value, setting, run) || run.report("const", () => formatConstant(setting), value);

const buildEnum: Builder = (setting) => {
  const values = setting as readonly unknown[];
  const scalars = new Set(values.filter((value) => typeof value !== "object" || value === null));
  const structured = values.filter((value) => typeof value === "object" && value !== null);
  const expected = (): string => (values.length === 1 ? "" : "one of ") + formatList(values, formatConstant);
  return (value, run) => {
    const found =
      typeof value === "object" && value !== null
        ? structured.some((other) => equalJson(value, other, run))
        : scalars.has(value);
    return found || run.report("enum", values.length === 0 ? () => "nothing" : expected, value);
  };
};

type Compare = (value: number, buildBound: number) => boolean;

function bound(keyword: string, relation: string, holds: Compare): Builder {
  return (setting) => {
    // Draft-04's boolean form only changes `minimum` and `maximum`.
    if (typeof setting !== "number") return undefined;
    const expected = (): string => `a number ${relation} ${setting}`;
    return (value, run) => typeof value !== "number" || holds(value, setting) || run.report(keyword, expected, value);
  };
}

/** Builds `minimum` and `maximum`, which are exclusive in draft-04 if the boolean `exclusiveMinimum` or `exclusiveMaximum` is true. */
function buildEitherBound(exclusiveKeyword: string, inclusive: Builder, exclusive: Builder): Builder {
  return (setting, schema, context) =>
    (ownProperty(schema, exclusiveKeyword) === true ? exclusive : inclusive)(setting, schema, context);
}

const atLeast = bound("minimum", "of at least", (value, least) => value >= least);
const atMost = bound("maximum", "of at most", (value, most) => value <= most);
const above = bound("exclusiveMinimum", "above", (value, least) => value > least);
const below = bound("exclusiveMaximum", "below", (value, most) => value < most);

const buildMultipleOf: Builder = (setting) => {
  const divisor = Number(setting);
  const expected = (): string => `a multiple of ${divisor}`;
  return (value, run) =>
    typeof value !== "number" || isMultipleOf(value, divisor) || run.report("multipleOf", expected, value);
};

/** Computes in decimal: 0.07 is a multiple of 0.01, although 0.07 % 0.01 is not 0. */
function isMultipleOf(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0;
  if (!Number.isFinite(value)) return false;
  const a = toDecimal(value);
  const b = toDecimal(divisor);
  // Exponents are between -324 and 308, so the numbers have at most 632 digits more.
  const exponent = Math.min(a.exponent, b.exponent);
  return (a.digits * 10n ** BigInt(a.exponent - exponent)) % (b.digits * 10n ** BigInt(b.exponent - exponent)) === 0n;
}

function toDecimal(value: number): { digits: bigint; exponent: number } {
  const [mantissa = "0", exponent = "0"] = Math.abs(value).toString().split("e");
  const [whole = "0", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}

/** Counts code points, as JSON Schema does. */
function countCodePoints(text: string): number {
  let pairs = 0;
  for (let index = 0; index < text.length - 1; index++) {
    const isHigh = (text.charCodeAt(index) & 0xfc00) === 0xd800;
    if (isHigh && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00) {
      pairs += 1;
      index += 1;
    }
  }
  return text.length - pairs;
}

/** Counts code points only if necessary: n code points have n to 2n UTF-16 code units. */
function buildLength(keyword: "minLength" | "maxLength"): Builder {
  return (setting) => {
    const limit = Number(setting);
    const isMin = keyword === "minLength";
    const expected = (): string =>
      `a string of at ${isMin ? "least" : "most"} ${formatCount(limit, "character", "characters")}`;
    return (value, run) => {
      if (typeof value !== "string") return true;
      if (isMin ? value.length < limit : value.length <= limit) {
        return !isMin || run.report(keyword, expected, value, () => describeLength(value, value.length));
      }
      if (isMin ? value.length >= limit * 2 : value.length > limit * 2) {
        return isMin || run.report(keyword, expected, value, () => describeLength(value, undefined));
      }
      run.spend(value.length >> 4);
      const length = countCodePoints(value);
      const holds = isMin ? length >= limit : length <= limit;
      return holds || run.report(keyword, expected, value, () => describeLength(value, length));
    };
  };
}

function describeLength(text: string, length: number | undefined): string {
  const amount =
    length === undefined ? `over ${text.length >> 1} characters` : formatCount(length, "character", "characters");
  return `${amount}: ${quoteShortened(text)}`;
}

const buildPattern: Builder = (setting) => {
  const pattern = new Pattern(String(setting));
  const expected = (): string => `a string matching ${quoteShortened(pattern.source)}`;
  return (value, run) =>
    typeof value !== "string" || pattern.test(value, run) || run.report("pattern", expected, value);
};

const buildFormat: Builder = (setting) => {
  const format = FORMATS.get(String(setting));
  if (format === undefined) return undefined;
  const expected = (): string => `a string in the format ${String(setting)}`;
  return (value, run) => {
    if (typeof value !== "string") return true;
    if (value.length > format.maxChars) return run.report("format", expected, value);
    // These regexes take 10-80 ns a character.
    run.spend(1 + (value.length >> 1));
    return format.test(value) || run.report("format", expected, value);
  };
};

/** The checks in the order in which issues are reported. */
export const SCALAR_CHECKS: readonly (readonly [keyword: string, build: Builder])[] = [
  ["type", buildType],
  ["const", buildConst],
  ["enum", buildEnum],
  ["minimum", buildEitherBound("exclusiveMinimum", atLeast, above)],
  ["maximum", buildEitherBound("exclusiveMaximum", atMost, below)],
  ["exclusiveMinimum", above],
  ["exclusiveMaximum", below],
  ["multipleOf", buildMultipleOf],
  ["minLength", buildLength("minLength")],
  ["maxLength", buildLength("maxLength")],
  ["format", buildFormat],
  ["pattern", buildPattern],
];
