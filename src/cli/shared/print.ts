// Prints results for a person: errors with their source line, log entries, output and timings. CliOutput escapes everything that is
// printed.
import { codeFrame, type StackFrame } from "../../bundler/compile/source-map.ts";
import type { ToolResult } from "../../host/contract/tool-call.ts";
import { type ToolValue, toJson } from "../../host/contract/tool-value.ts";
import type { LogEntry } from "../../host/observability/call-log.ts";
import { toVisibleText } from "../../host/util/visible-text.ts";
import type { JsonValue, ToolErrorData } from "../../sandbox/contract/errors.ts";
import { type CliOutput, type Piece, styled } from "../terminal/output.ts";

type Details = { readonly [key: string]: JsonValue | undefined };

const isDetails = (value: unknown): value is Details =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const LEVEL_STYLES = { debug: "dim", info: "reset", warn: "yellow", error: "red" } as const;

/** Prints warnings about probable mistakes in a tool. */
export function printWarnings(warnings: readonly string[], output: CliOutput): void {
  for (const warning of warnings) output.print(styled("yellow", "Warning"), ` ${warning}\n`);
}

export function printLog(entry: LogEntry, output: CliOutput): void {
  const { level, message, place, callId } = entry;
  const data = entry.data === undefined ? "" : ` ${JSON.stringify(entry.data)}`;
  const origin = [callId, place].flatMap((text) => (text === undefined ? [] : [styled("dim", text), " "]));
  output.print(styled(LEVEL_STYLES[level], level.padEnd(5)), " ", ...origin, `${message}${data}\n`);
}

function indent(text: string): string {
  return text
    .split("\n")
    .map((line) => `  ${line}`)
    .join("\n");
}

/** Formats a code frame for a terminal: the marked line is bold, its context dim. Ends with a newline. */
function formatFrame(frame: string): readonly Piece[] {
  const lines = indent(toVisibleText(frame)).split("\n");
  return lines.flatMap((line) => {
    if (line.startsWith("  >")) return [styled("bold", line), "\n"];
    return [styled(/^[ |\t]*\^$/.test(line) ? "red" : "dim", line), "\n"];
  });
}

/** Returns the location and code frame of a bundle error. */
function issueFrame(problem: Details): readonly Piece[] | undefined {
  const { file, line, column, lineText } = problem;
  if (typeof file !== "string" || typeof line !== "number" || typeof lineText !== "string") return undefined;
  const at = typeof column === "number" ? column : 1;
  // codeFrame counts lines from the start of its text, so the line number of the single line is corrected.
  const frame = codeFrame({ line: 1, column: at, text: lineText })?.replace("> 1 |", `> ${line} |`);
  return [`  ${file}:${line}:${at}\n`, ...(frame === undefined ? [] : formatFrame(frame))];
}

function issueFrames(details: Details): (readonly Piece[])[] {
  const problems = Array.isArray(details.problems) ? (details.problems as readonly JsonValue[]) : [];
  return problems.slice(0, 10).flatMap((problem) => {
    const frame = isDetails(problem) ? issueFrame(problem) : undefined;
    return frame === undefined ? [] : [frame];
  });
}

/** Returns the code frame of a stack frame; undefined if its source is not known. */
export type ShowCode = (frame: StackFrame) => string | undefined;

/** Prints the error's code and message, its location in the tool's source, and in a terminal the path of the page about its code. */
export function printError(error: ToolErrorData, output: CliOutput, showCode?: ShowCode): void {
  output.print(styled(["red", "bold"], error.code), `: ${error.message}\n`);
  const details: Details = error.details ?? {};
  const problems = issueFrames(details);
  for (const frame of problems) output.print("\n", ...frame);
  const { file, line, column } = details;
  if (problems.length === 0 && typeof file === "string" && typeof line === "number" && typeof column === "number") {
    const frame = showCode?.({ file, line, column });
    if (frame !== undefined) output.print("\n", ...formatFrame(frame));
  }
  const frames = (error.stack ?? "").split("\n").filter((line) => line.startsWith("    at "));
  if (frames.length > 0) output.print(`\n${frames.join("\n")}\n`);
  if (output.isTerminal) output.print(styled(["dim"], `\nSee ${error.docs}\n`));
}

/** Prints a value as a JSON document, indented in a terminal and otherwise on one line. Bytes are base64. */
export function printJson(value: unknown, output: CliOutput, indent?: number): void {
  // Escaping JSON text keeps its value.
  output.print(`${JSON.stringify(toJson(value as ToolValue), null, indent)}\n`);
}

const indentFor = (output: CliOutput): number | undefined => (output.isTerminal ? 2 : undefined);

/** Prints a result's output, together with its content if it has any. */
export function printOutput({ output, content }: Extract<ToolResult, { success: true }>, target: CliOutput): void {
  printJson(content === undefined ? output : { output, content }, target, indentFor(target));
}

/** Prints one chunk of a stream. */
export function printChunk(value: ToolValue, target: CliOutput): void {
  printJson(value, target, indentFor(target));
}

/** Prints the duration of each step in ms. The time between the steps is listed separately. */
export function printTimes(
  result: ToolResult,
  build: { readonly bundleMs: number; readonly extractMs: number },
  output: CliOutput,
): void {
  const { usage, durationMs } = result;
  const rows: readonly (readonly [string, number])[] = [
    ["bundle", build.bundleMs],
    ["definition", build.extractMs],
    ["queue", usage.queueMs],
    ["start", usage.startMs],
    ["execute", usage.executeMs],
    ["other", Math.max(0, durationMs - usage.queueMs - usage.startMs - usage.executeMs)],
    ["total call", durationMs],
  ];
  for (const [name, ms] of rows) output.print(`${name.padEnd(12)} ${ms.toFixed(1).padStart(9)} ms\n`);
  output.print(`${"CPU".padEnd(12)} ${usage.cpuMs.toFixed(1).padStart(9)} ms\n`);
  output.print(`${"memory".padEnd(12)} ${(usage.heapBytes / 1024 / 1024).toFixed(1).padStart(9)} MiB\n`);
}
