// Finds out from a tool's source whether a member of ctx that was not granted caused a TypeError, as in `async (_, { kv }) => kv.get("a")`:
// V8's message names only the property, `get`. The report, its position and the names are the guest's, and therefore untrusted.
import { grantOf, notGranted } from "../../sandbox/protocol/not-granted.ts";

/** Longest expression before the position of an error that is read, in UTF-16 code units. */
const MAX_BEFORE = 400;
/** Longest source that is searched for another name of a member. */
const MAX_SOURCE = 1_048_576;
const PROPERTY = /of undefined \((?:reading|setting) '([^']*)'\)/;
const IDENTIFIER = /^[\w$]{1,128}$/;

export interface TypeErrorReport {
  readonly message: string;
  /** Text of the file in which the error occurred. */
  readonly text: string;
  /** Position of the property in the file, counted from 1. */
  readonly line: number;
  readonly column: number;
  /** Names of the members of ctx that do not exist and that the call has read. */
  readonly missing: readonly string[];
}

export interface MissingCapability {
  /** Name of the capability to grant. */
  readonly capability: string;
  readonly message: string;
  /** Whether the variable in the source has the name of the missing member. Otherwise the capability is a suggestion. */
  readonly isCertain: boolean;
}

/** Returns the source in front of a position, at most {@link MAX_BEFORE} of it, and what follows. */
function around(text: string, line: number, column: number): { before: string; after: string } | undefined {
  let start = 0;
  for (let at = 1; at < line; at += 1) {
    start = text.indexOf("\n", start) + 1;
    if (start === 0) return undefined;
  }
  const at = start + column - 1;
  return at > text.length ? undefined : { before: text.slice(Math.max(0, at - MAX_BEFORE), at), after: text.slice(at) };
}

/** Returns the variable that `before` ends with, and the object whose member it is: `kv.`, `this.kv!.`, `tools[`, `(tools as Tools).`. */
function receiverIn(before: string): { variable: string; object: string | undefined; isDot: boolean } | undefined {
  const access = before.trimEnd();
  const isDot = access.endsWith(".");
  if (!isDot && !access.endsWith("[")) return undefined;
  const expression = access.slice(0, -1).replace(/(?: as [\w$.]{1,80})?[)!\s]{0,8}$/, "");
  const variable = /[\w$]+$/.exec(expression)?.[0];
  if (variable === undefined) return undefined;
  const rest = expression.slice(0, -variable.length).trimEnd();
  return { variable, object: rest.endsWith(".") ? (/[\w$]+$/.exec(rest.slice(0, -1))?.[0] ?? "") : undefined, isDot };
}

/** Returns the variable at the position itself, which `kv["get"]` has where esbuild maps only the whole expression. */
function receiverAt({ before, after }: { before: string; after: string }): ReturnType<typeof receiverIn> {
  const access = /^[\w$]{1,128}\[/.exec(after)?.[0];
  return access === undefined ? undefined : receiverIn(before + access);
}

/** Returns whether the source gives a member another name: `{ kv: store }`, `store = ctx.kv`. */
function isRenamed(text: string, member: string, variable: string): boolean {
  if (text.length > MAX_SOURCE || !IDENTIFIER.test(member)) return false;
  const [from, to] = [member, variable].map((name) => name.replaceAll("$", "\\$"));
  return new RegExp(`(?<![\\w$])(?:${from}\\s*:\\s*${to}|${to}\\s*=\\s*[\\w$]+\\s*\\.\\s*${from})(?![\\w$])`).test(
    text,
  );
}

/** Returns the capability that a tool has used without having it, or undefined if the error has another cause. */
export function findMissingCapability(report: TypeErrorReport): MissingCapability | undefined {
  const { message, text, line, column, missing } = report;
  const property = PROPERTY.exec(message)?.[1];
  const source = property === undefined ? undefined : around(text, line, column);
  const receiver = source && (receiverIn(source.before) ?? receiverAt(source));
  if (property === undefined || source === undefined || receiver === undefined) return undefined;
  const { variable, object, isDot } = receiver;
  if (isDot && !source.after.startsWith(property)) return undefined;
  const member = missing.find((name) => name === variable) ?? missing.find((name) => isRenamed(text, name, variable));
  if (member === undefined) return undefined;
  const capability = grantOf(member);
  return {
    capability,
    message: notGranted(`ctx.${member}`, capability),
    isCertain: member === variable && (object === undefined || object === "ctx"),
  };
}
