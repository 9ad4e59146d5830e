// What is wrong with options that a host has stated: each problem with its path and what would be right, also for a key that is no option.
import type * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";

export interface OptionProblem {
  /** Keys and indexes, joined by dots. */
  readonly pointer: string;
  readonly message: string;
}

const MAX_PROBLEMS = 20;
const MAX_KNOWN = 20;

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** zod's own description of a schema, as far as it is read here. */
interface Definition {
  readonly type: string;
  readonly shape?: { readonly [key: string]: z.core.$ZodType };
  readonly innerType?: z.core.$ZodType;
  readonly in?: z.core.$ZodType;
  readonly out?: z.core.$ZodType;
  readonly valueType?: z.core.$ZodType;
  readonly element?: z.core.$ZodType;
  readonly options?: readonly z.core.$ZodType[];
}

export function toOptionProblems(schema: z.core.$ZodType, { issues }: z.core.$ZodError): readonly OptionProblem[] {
  const problems = issues.flatMap((issue) => toProblems(schema, issue, issue.path));
  return problems.slice(0, MAX_PROBLEMS);
}

/** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong; `what` stands before it */
export function parseOptions<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = toOptionProblems(schema, parsed.error).map((problem) => ({ ...problem }));
  const text = problems.map(({ pointer, message }) => `${pointer === "" ? what : `${what}.${pointer}`}: ${message}`);
  throw new ToolError("PARAM_INVALID", text.join("; "), { details: { problems } });
}

/** Returns the error for a key that is no option, as {@link parseOptions} words it: for code that reads its options without a schema. */
export function unknownOptionError(what: string, key: string, known: readonly string[]): ToolError {
  const pointer = toPointer([key]);
  const message = unknownOption(key, known);
  return new ToolError("PARAM_INVALID", `${what}.${pointer}: ${message}`, {
    details: { problems: [{ pointer, message }] },
  });
}

function toProblems(schema: z.core.$ZodType, issue: Issue, path: Path): readonly OptionProblem[] {
  if (issue.code === "unrecognized_keys") {
    const known = keysAt(schema, path);
    return issue.keys.map((key) => ({ pointer: toPointer([...path, key]), message: unknownOption(key, known) }));
  }
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    // What was meant is the one alternative of that kind, which is wrong further in.
    const ofKind = issue.errors.filter((errors) => !errors.some(isOtherKind));
    const meant = onlyOne(ofKind) ?? onlyOne(ofKind.filter((errors) => !errors.some(hasOtherKeys)));
    if (meant !== undefined) return meant.flatMap((inner) => toProblems(schema, inner, [...path, ...inner.path]));
    if (issue.message === "Invalid input") {
      const expected = issue.errors.flatMap(([first]) => (first === undefined ? [] : [first.message]));
      return [{ pointer: toPointer(path), message: [...new Set(expected)].join(", or: ") }];
    }
  }
  // Of a name that may not be one, what it may be.
  const { message } = (issue.code === "invalid_key" ? issue.issues[0] : undefined) ?? issue;
  return [{ pointer: toPointer(path), message }];
}

const isOtherKind = ({ code, path }: Issue): boolean =>
  path.length === 0 && (code === "invalid_type" || code === "invalid_value" || code === "custom");

const hasOtherKeys = ({ code, path }: Issue): boolean => path.length === 0 && code === "unrecognized_keys";
const onlyOne = <Item>([first, second]: readonly Item[]): Item | undefined =>
  second === undefined ? first : undefined;

const toPointer = (path: Path): string => path.map(String).join(".").slice(0, 200);

/** Of a pipe, the side that has the keys: `schema.transform(…)` has them first, `strictObject(…)` last. */
function objectSideOf(def: Definition): z.core.$ZodType | undefined {
  return def.in?._zod.def.type === "transform" ? def.out : def.in;
}

/** The options that there are at this place. */
function keysAt(schema: z.core.$ZodType, path: Path): readonly string[] {
  const def = schema._zod.def as unknown as Definition;
  const [key, ...rest] = path;
  const inner = def.innerType ?? objectSideOf(def);
  if (inner !== undefined) return keysAt(inner, path);
  if (def.options !== undefined) return [...new Set(def.options.flatMap((option) => keysAt(option, path)))];
  if (def.shape !== undefined && key === undefined) return Object.keys(def.shape);
  const child = def.shape?.[String(key)] ?? def.valueType ?? def.element;
  return child === undefined || key === undefined ? [] : keysAt(child, rest);
}

/** Returns the known name that differs from this one by a few letters at most; undefined if there is none. */
export function findNearestName(name: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((other) => ({ name: other, distance: distanceOf(name.toLowerCase(), other.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const isNear = best !== undefined && best.distance <= Math.max(2, Math.floor(best.name.length / 3));
  return isNear ? best.name : undefined;
}

/** Describes an unknown key for a message, with the known one that the caller probably meant. */
export function unknownOption(key: string, known: readonly string[]): string {
  const nearest = findNearestName(key, known);
  if (nearest !== undefined) return `Unknown option. Did you mean "${nearest}"?`;
  if (known.length === 0) return "Unknown option";
  return `Unknown option. Expected one of: ${known.slice(0, MAX_KNOWN).join(", ")}`;
}

/** Letters to put in, take out or change (Levenshtein). */
function distanceOf(text: string, other: string): number {
  if (Math.abs(text.length - other.length) > other.length) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...text].entries()) {
    const next = [index + 1];
    for (let at = 0; at < other.length; at += 1) {
      const changed = (row[at] ?? 0) + (letter === other[at] ? 0 : 1);
      next.push(Math.min(changed, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
