// What the Python runtime inside the isolate is given for one call: a PythonRun as JSON text, made around arguments that nobody parses
// for it.
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { PythonSource } from "./python-source.ts";

export type RunText = string | Buffer;

/** Of large arguments no second copy is made as a string. */
const joined = (before: string, args: RunText, after: string): RunText =>
  typeof args === "string" ? before + args + after : Buffer.concat([Buffer.from(before), args, Buffer.from(after)]);

/** Its text without the last brace, for more to follow. */
const opened = (head: object): string => `${JSON.stringify(head).slice(0, -1)},`;

const headOf = ({ code, entry, files }: PythonSource): object => ({ mode: "tool", code, fileName: entry, files });

/** A call of a tool: its arguments are the input. */
export function createToolRuns(source: PythonSource): (args: RunText, limits: Limits) => RunText {
  const head = opened(headOf(source));
  return (args, { memoryMiB }) => joined(`${head}"memoryMiB":${memoryMiB},"input":`, args, "}");
}

/** Asks for a tool's definition. */
export const toDescribeRun = (source: PythonSource, { memoryMiB }: Limits): string =>
  JSON.stringify({ ...headOf(source), memoryMiB, describe: true });

/** As a traceback names a snippet. */
export const SNIPPET_NAME = "snippet.py";

/** A session's run: its arguments are those of a snippet, its names are kept. */
export const createSessionRun =
  (fileName: string) =>
  (args: RunText, { memoryMiB }: Limits): RunText =>
    around({ mode: "session", fileName, memoryMiB }, args);

/** A snippet: its arguments are `code` and `input`, checked by a schema that takes no others. In a conversation its names are kept. */
export const toSnippetRun = (args: RunText, { memoryMiB }: Limits, isInSession: boolean): RunText =>
  around({ mode: isInSession ? "session" : "exec", fileName: SNIPPET_NAME, memoryMiB }, args);

/** The brace that opens the arguments is there already. */
const around = (head: object, args: RunText): RunText =>
  joined(opened(head), typeof args === "string" ? args.slice(1) : args.subarray(1), "");
