// Validates options with a zod schema and turns its issues into one error message: each issue with its path and what is expected there.
import type * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { issueMessage, joinAlternatives } from "./issue-message.ts";

export interface OptionIssue {
  /** Keys and indexes of the option's path, joined by dots. */
  readonly path: string;
  readonly message: string;
}

/** Options that earlier versions called by the key, with their present names. */
const RENAMED_OPTIONS: { readonly [name: string]: string } = {
  claim: "idempotencyStore",
  concurrentCalls: "maxConcurrentCalls",
  decisions: "approvals",
  definition: "overrides",
  hostCalls: "maxCapabilityCalls",
  isolation: "isolateLifetime",
  logPlaces: "logSourceLocations",
  normalize: "afterExecute",
  pendingHostCalls: "maxPendingCapabilityCalls",
  pythonSpares: "warmPythonProcesses",
  queuedCalls: "maxQueuedCalls",
  spares: "warmProcesses",
  stateKey: "signingKey",
};
/** Former options whose present name depends on where they are, as alternatives. */
const RENAMED_STORES = ["packagesDir", "kv", "dir"];

/** Names that other libraries give an option, with ours. A nearer name is suggested only where none of these is an option. */
const USUAL_NAMES: { readonly [name: string]: readonly string[] } = {
  allowedhosts: ["allow"],
  allowlist: ["allow"],
  args: ["arguments"],
  code: ["source"],
  cpu: ["cpuMs"],
  domains: ["allow"],
  filename: ["path"],
  hosts: ["allow"],
  input: ["arguments"],
  memorylimit: ["memoryMiB"],
  memorymb: ["memoryMiB"],
  parameters: ["inputSchema", "arguments"],
  params: ["inputSchema", "arguments"],
  permissions: ["grant", "capabilities"],
  capabilities: ["grant"],
  schema: ["inputSchema"],
  tenant: ["tenantId"],
  timeout: ["timeoutMs"],
};

const MAX_ISSUES = 20;
/** Maximum number of names that the error for an unknown option lists. */
export const MAX_SUGGESTED_NAMES = 20;

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** The parts of zod's internal schema definition that are read here. */
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

export function toOptionIssues(schema: z.core.$ZodType, { issues }: z.core.$ZodError): readonly OptionIssue[] {
  return issues.flatMap((issue) => collectIssues(schema, issue, issue.path)).slice(0, MAX_ISSUES);
}

/**
 * Parses options with a schema.
 * @param what name of the options in the message, which precedes each path; or a function that returns the name of a path
 * @throws {ToolError} PARAM_INVALID, which names the path of each invalid option
 */
export function parseOptions<T>(schema: z.ZodType<T>, value: unknown, what: string | ((path: string) => string)): T {
  // zod compiles a schema to JavaScript when it parses the first value, which is slower for options: they are parsed once or a few times.
  const parsed = schema.safeParse(value, { jitless: true });
  if (parsed.success) return parsed.data;
  const issues = toOptionIssues(schema, parsed.error).map((issue) => ({ ...issue }));
  const nameOf = typeof what === "string" ? (path: string) => (path === "" ? what : `${what}.${path}`) : what;
  const text = issues.map(({ path, message }) => `${nameOf(path)}: ${message}`);
  throw new ToolError("PARAM_INVALID", text.join("; "), { details: { problems: issues } });
}

/** Returns the error for an unknown option, with the message of {@link parseOptions}, for code that reads its options without a schema. */
export function unknownOptionError(what: string, key: string, known: readonly string[]): ToolError {
  const path = joinPath([key]);
  const message = unknownOption(key, known);
  return new ToolError("PARAM_INVALID", `${what}.${path}: ${message}`, {
    details: { problems: [{ path, message }] },
  });
}

function collectIssues(schema: z.core.$ZodType, issue: Issue, path: Path): readonly OptionIssue[] {
  if (issue.code === "unrecognized_keys") {
    const known = keysAt(schema, path);
    return issue.keys.map((key) => ({ path: joinPath([...path, key]), message: unknownOption(key, known) }));
  }
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    const meant = issuesOfMeant(issue.errors);
    if (meant !== undefined) return meant.flatMap((inner) => collectIssues(schema, inner, [...path, ...inner.path]));
    if (issue.message === "Invalid input") {
      const messages = issue.errors.flatMap(([first]) => (first === undefined ? [] : [issueMessage(first)]));
      return [{ path: joinPath(path), message: joinAlternatives([...new Set(messages)]) }];
    }
  }
  return [{ path: joinPath(path), message: issueMessage(issue) }];
}

/**
 * Returns the issues of the fields, if one alternative of a union fits the type of the value and only some of its fields are invalid; undefined
 * if there is no such alternative.
 */
function issuesOfMeant(alternatives: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const sameType = alternatives.filter((errors) => !errors.some(isTypeMismatch));
  return onlyOne(sameType) ?? onlyOne(sameType.filter((errors) => !errors.some(hasUnknownKeys)));
}

/** Returns the issues of a request or another value, with those of the alternative that was meant in place of one about a whole union. */
export function expandUnions(issues: readonly Issue[]): readonly Issue[] {
  return issues.flatMap((issue) => {
    const meant = issue.code === "invalid_union" ? issuesOfMeant(issue.errors) : undefined;
    if (meant === undefined) return [{ ...issue, message: issueMessage(issue) }];
    return expandUnions(meant.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })));
  });
}

const isTypeMismatch = ({ code, path }: Issue): boolean =>
  path.length === 0 && (code === "invalid_type" || code === "invalid_value" || code === "custom");

const hasUnknownKeys = ({ code, path }: Issue): boolean => path.length === 0 && code === "unrecognized_keys";
const onlyOne = <Item>([first, second]: readonly Item[]): Item | undefined =>
  second === undefined ? first : undefined;

const joinPath = (path: Path): string => path.map(String).join(".").slice(0, 200);

/** Returns the side of a pipe that has the keys: the input side for `schema.transform(…)`, the output side for `strictObject(…)`. */
function objectSideOf(def: Definition): z.core.$ZodType | undefined {
  return def.in?._zod.def.type === "transform" ? def.out : def.in;
}

/** Returns the known option names at a path. */
export function keysAt(schema: z.core.$ZodType, path: Path): readonly string[] {
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

/** Returns the present name of an option that was renamed; undefined if there is none here. */
function findPresentName(key: string, known: readonly string[]): string | undefined {
  const names = key === "store" ? RENAMED_STORES : Object.hasOwn(RENAMED_OPTIONS, key) ? [RENAMED_OPTIONS[key]] : [];
  return names.find((name) => name !== undefined && known.includes(name));
}

/** Returns our name of an option that other libraries call by this key; undefined if there is none here. */
function findUsualName(key: string, known: readonly string[]): string | undefined {
  const name = key.toLowerCase();
  return Object.hasOwn(USUAL_NAMES, name) ? USUAL_NAMES[name]?.find((ours) => known.includes(ours)) : undefined;
}

/** Describes an unknown key for a message, with the known one that the caller probably meant. */
export function unknownOption(key: string, known: readonly string[]): string {
  const renamed = findPresentName(key, known);
  if (renamed !== undefined) return `Unknown option. It is now called "${renamed}"`;
  const nearest = findUsualName(key, known) ?? findNearestName(key, known);
  if (nearest !== undefined) return `Unknown option. Did you mean "${nearest}"?`;
  if (known.length === 0) return "Unknown option";
  return `Unknown option. Expected one of: ${known.slice(0, MAX_SUGGESTED_NAMES).join(", ")}`;
}

/** Returns the Levenshtein distance: the number of letters to insert, delete or replace. */
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
