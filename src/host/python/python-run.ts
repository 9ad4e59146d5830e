// Builds a PythonRun, the input of the Python runtime in the isolate, as JSON text around arguments that are not
// parsed.
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { PythonCalls } from "../executors/sandbox-tool.ts";
import type { PythonSource } from "./python-source.ts";

export type RunText = string | Buffer;

/** Concatenates the parts, without copying large arguments into a string. */
const concat = (before: string, args: RunText, after: string): RunText =>
  typeof args === "string" ? before + args + after : Buffer.concat([Buffer.from(before), args, Buffer.from(after)]);

/** Returns the object's JSON text without the last brace, so that more properties can follow. */
const openObject = (head: object): string => `${JSON.stringify(head).slice(0, -1)},`;

const headOf = ({ code, entry, files }: PythonSource): object => ({ mode: "tool", code, fileName: entry, files });

/** Returns a builder for calls of a tool, and the text that they begin with. The arguments become the input. */
export function createToolRuns(source: PythonSource): Pick<PythonCalls, "toRun" | "source"> {
  const text = openObject(headOf(source));
  return {
    source: { text },
    toRun: (args, { memoryMiB }) => concat(`${text}"memoryMiB":${memoryMiB},"input":`, args, "}"),
  };
}

/** Requests a tool's definition. */
export const toDescribeRun = (source: PythonSource, { memoryMiB }: Limits): string =>
  JSON.stringify({ ...headOf(source), memoryMiB, describe: true });

/** File name of a snippet in tracebacks. */
export const SNIPPET_NAME = "snippet.py";

/** Returns a builder for runs of a session. Arguments are those of a snippet, and names are kept. */
export const createSessionRun =
  (fileName: string) =>
  (args: RunText, { memoryMiB }: Limits): RunText =>
    mergeHead({ mode: "session", fileName, memoryMiB }, args);

/**
 * Builds the run of a snippet. Its schema allows the arguments `code` and `input` only. In a session, names are kept.
 */
export const toSnippetRun = (args: RunText, { memoryMiB }: Limits, isInSession: boolean): RunText =>
  mergeHead({ mode: isInSession ? "session" : "exec", fileName: SNIPPET_NAME, memoryMiB }, args);

/** Merges the arguments' properties into the head by dropping their opening brace. */
const mergeHead = (head: object, args: RunText): RunText =>
  concat(openObject(head), typeof args === "string" ? args.slice(1) : args.subarray(1), "");
