// Words the issues of zod schemas that state no message of their own: what is expected, and what was given. Options and HTTP requests use it.
import type * as z from "zod";

type Issue = z.core.$ZodIssue;

/** How the messages of zod itself begin. */
const DEFAULT_MESSAGE = /^(?:Invalid |Too (?:big|small): |Unrecognized key)/;
const RECEIVED = /, received (\S+)$/;

const TYPES: { readonly [name: string]: string } = {
  array: "an array",
  int: "a whole number",
  nan: "NaN",
  NaN: "NaN",
  null: "null",
  object: "an object",
  record: "an object",
  undefined: "nothing",
  Infinity: "Infinity",
  "-Infinity": "-Infinity",
};
const typeName = (name: string): string => TYPES[name] ?? `${/^[aeiou]/i.test(name) ? "an" : "a"} ${name}`;

const UNITS: { readonly [origin: string]: string } = {
  string: "character",
  array: "item",
  set: "item",
  map: "entry",
  file: "byte",
};

/** Describes a bound: `at least 8 characters`, `a number of at most 100`. */
function boundText(origin: string, bound: number | bigint, words: string): string {
  const unit = UNITS[origin];
  if (unit === undefined) return `a number ${words.startsWith("exactly") ? "equal to" : `of ${words}`} ${bound}`;
  const plural = unit === "entry" ? "entries" : `${unit}s`;
  return `${words} ${bound} ${bound === 1 || bound === 1n ? unit : plural}`;
}

function formatText(issue: Issue & { readonly code: "invalid_format" }): string {
  const details = issue as { readonly prefix?: string; readonly suffix?: string; readonly includes?: string };
  if (details.prefix !== undefined) return `text that begins with ${JSON.stringify(details.prefix)}`;
  if (details.suffix !== undefined) return `text that ends with ${JSON.stringify(details.suffix)}`;
  if (details.includes !== undefined) return `text that contains ${JSON.stringify(details.includes)}`;
  if (issue.format === "regex") return `text that matches ${issue.pattern}`;
  return `a valid ${issue.message.replace(/^Invalid /, "")}`;
}

function expectedText(issue: Issue): string | undefined {
  switch (issue.code) {
    case "invalid_type": {
      const received = RECEIVED.exec(issue.message)?.[1];
      const isFraction = issue.expected === "int" && received === "number";
      return `${typeName(issue.expected)}${received === undefined || isFraction ? "" : `, got ${typeName(received)}`}`;
    }
    case "invalid_value": {
      const values = issue.values.map((value) => (typeof value === "string" ? JSON.stringify(value) : String(value)));
      return values.length === 1 ? values[0] : `one of ${values.join(", ")}`;
    }
    case "too_small":
      return boundText(
        issue.origin,
        issue.minimum,
        issue.exact ? "exactly" : issue.inclusive ? "at least" : "more than",
      );
    case "too_big":
      return boundText(
        issue.origin,
        issue.maximum,
        issue.exact ? "exactly" : issue.inclusive ? "at most" : "less than",
      );
    case "invalid_format":
      return formatText(issue);
    case "not_multiple_of":
      return `a multiple of ${issue.divisor}`;
    default:
      return undefined;
  }
}

/** Returns the message of an issue: that of its schema, or else what is expected in words: `Expected a number of at least 1`. */
export function issueMessage(issue: Issue): string {
  // The issue inside an invalid key says which names are valid.
  if (issue.code === "invalid_key" && issue.issues[0] !== undefined) return issueMessage(issue.issues[0]);
  const expected = DEFAULT_MESSAGE.test(issue.message) ? expectedText(issue) : undefined;
  return expected === undefined ? issue.message : `Expected ${expected}`;
}

const EXPECTED_AND_GOT = /^Expected (.*?), got (.*)$/;

/** Returns one message for the alternatives of a union: `Expected a string or an array, got a number`. */
export function joinAlternatives(messages: readonly string[]): string {
  const parts = messages.map((message) => EXPECTED_AND_GOT.exec(message));
  const [, , got] = parts[0] ?? [];
  if (got === undefined || parts.some((part) => part?.[2] !== got)) return messages.join(", or: ");
  return `Expected ${parts.map((part) => part?.[1]).join(" or ")}, got ${got}`;
}
