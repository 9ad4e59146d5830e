// Turns the messages of esbuild into issues for a person: paths of the tool and its packages only, and columns counted in characters.
import { resolve } from "node:path";
import type { Location, Message } from "esbuild";
import type { PackageStore } from "../locate/package-store.ts";
import { NAMESPACES } from "../policy/import-resolver.ts";
import { explainUnresolved } from "../policy/import-rules.ts";
import type { BuildIssue } from "./child/build-messages.ts";
import { declaredBytesBefore } from "./located-files/module-location.ts";
import { NO_MATCH, UNRESOLVED } from "./transforms/unresolved-imports.ts";

const MAX_ISSUES = 20;
const MAX_MESSAGE_LENGTH = 500;
const MAX_LINE_LENGTH = 200;

const RUNTIME_IMPORT: Pick<BuildIssue, "message" | "hint"> = {
  message: "Cannot import a path that is computed at run time",
  hint: "import() and require() need a constant string",
};
/** Warnings of the scan that mean that an import cannot work. */
export const FATAL_WARNINGS: ReadonlySet<string> = new Set([
  "unsupported-dynamic-import",
  "unsupported-require-call",
  "empty-glob",
]);

/** Source text is printed in terminals, so escape sequences and characters that reorder a line are removed. */
const INVISIBLE = /(?!\t)[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

function clean(text: string, length: number): string {
  const cut = text.length > length ? `${text.slice(0, length)}…` : text;
  return cut.replace(INVISIBLE, "\ufffd");
}

function hintOf(message: Message): string | undefined {
  const detail: unknown = message.detail;
  if (typeof detail !== "object" || detail === null || !("hint" in detail)) return undefined;
  return typeof detail.hint === "string" ? detail.hint : undefined;
}

export interface IssueContext {
  readonly store: PackageStore;
  /** The texts of the tool's own files. */
  readonly texts: ReadonlyMap<string, string>;
  readonly workingDirectory: string;
}

/** Returns the author's name for a file that esbuild names: `tool:lib/x.ts`, or a path relative to the working directory. */
export function displayFile(file: string, context: IssueContext): string | undefined {
  const prefix = `${NAMESPACES.tool}:`;
  if (file.startsWith(prefix)) return file.slice(prefix.length);
  if (file === `${NAMESPACES.guest}:tool`) return "glovebox/tool";
  return context.store.displayPath(resolve(context.workingDirectory, file));
}

function issueLocationOf(location: Location | null, context: IssueContext): Partial<BuildIssue> {
  if (location === null) return {};
  const file = displayFile(location.file, context);
  if (file === undefined) return {};
  // esbuild counts columns from 0, in bytes.
  const start = declaredBytesBefore(location.lineText, location.column);
  const column = Buffer.from(location.lineText).subarray(start, location.column).toString("utf8").length + 1;
  // Only lines of the tool itself are quoted.
  const lines = location.file.startsWith(`${NAMESPACES.tool}:`) ? (context.texts.get(file)?.split("\n") ?? []) : [];
  const last = lines.at(-1);
  // "Unexpected end of file" is on the line that was appended after the file's own.
  if (last !== undefined && location.line > lines.length) return quoteLine(file, lines.length, last.length + 1, last);
  return quoteLine(file, location.line, column, lines[location.line - 1]);
}

function quoteLine(file: string, line: number, column: number, lineText: string | undefined): Partial<BuildIssue> {
  if (lineText === undefined || column > MAX_LINE_LENGTH) return { file, line, column };
  return { file, line, column, lineText: clean(lineText, MAX_LINE_LENGTH) };
}

/** Tells whether esbuild read the file without the plugin's check. It does so with each package.json, which may link to any file. */
function isUnguarded(location: Location, context: IssueContext): boolean {
  if (location.file.startsWith(`${NAMESPACES.tool}:`)) return false;
  return !context.store.loaded.has(resolve(context.workingDirectory, location.file));
}

/** Returns esbuild's text without internal namespaces and without host paths. No message is known to contain a host path here. */
function reword(text: string, { workingDirectory }: IssueContext): string {
  const shown = text.replaceAll(`"${NAMESPACES.tool}:`, '"');
  return workingDirectory === "/" ? shown : shown.replaceAll(workingDirectory, "");
}

function toIssue(message: Message, context: IssueContext): BuildIssue {
  const location = issueLocationOf(message.location, context);
  if (message.pluginName !== "") {
    return { ...location, message: clean(message.text, MAX_MESSAGE_LENGTH), hint: hintOf(message) };
  }
  if (message.location === null) return { message: "The bundler failed to build this source" };
  if (isUnguarded(message.location, context)) {
    return { message: "A package.json in the package store is invalid", hint: "it must be a file of valid JSON" };
  }
  if (FATAL_WARNINGS.has(message.id) || NO_MATCH.test(message.text)) return { ...location, ...RUNTIME_IMPORT };
  const unresolved = UNRESOLVED.exec(message.text)?.[1];
  if (unresolved !== undefined) return { ...location, ...explainUnresolved(unresolved, context.store) };
  return { ...location, message: clean(reword(message.text, context), MAX_MESSAGE_LENGTH) };
}

export function toIssues(messages: readonly Message[], context: IssueContext): BuildIssue[] {
  const issues = new Map<string, BuildIssue>();
  for (const message of messages) {
    if (issues.size === MAX_ISSUES) break;
    const issue = toIssue(message, context);
    issues.set(JSON.stringify(issue), issue);
  }
  return [...issues.values()];
}
