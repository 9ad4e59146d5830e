// What a person reads: errors with the source line they are at, logs as they come, and where the time went.
import { styleText } from "node:util";
import { codeFrame, type StackFrame } from "../../bundler/source-map.ts";
import type { JsonValue, ToolErrorData } from "../../sandbox/errors.ts";
import type { LogEntry } from "../logs.ts";
import type { ToolResult } from "../tool-call.ts";
import { type ToolValue, toJson } from "../tool-value.ts";

type Output = NodeJS.Process["stderr"];
type Details = { readonly [key: string]: JsonValue | undefined };

const isDetails = (value: unknown): value is Details =>
  typeof value === "object" && value !== null && !Array.isArray(value);

type Style = Parameters<typeof styleText>[0];

/** Colour only where somebody sees it: in a terminal, unless NO_COLOR says no. */
export const style = (format: Style, text: string, output: Output): string =>
  styleText(format, text, { stream: output });

const LEVEL_STYLES = { debug: "dim", info: "reset", warn: "yellow", error: "red" } as const;

/** Control characters could move the cursor or retitle the terminal; a tool's text gets none through but tab and newline. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, (control) =>
    control === "\n" || control === "\t" ? control : "\ufffd",
  );
}

export function printLog(entry: LogEntry, output: Output): void {
  const { level, message, place, callId } = entry;
  const data = entry.data === undefined ? "" : ` ${JSON.stringify(entry.data)}`;
  const shownPlace = place === undefined ? "" : `${style("dim", printable(place), output)} `;
  const shownCall = callId === undefined ? "" : `${style("dim", printable(callId), output)} `;
  const shownLevel = style(LEVEL_STYLES[level], level.padEnd(5), output);
  output.write(`${shownLevel} ${shownCall}${shownPlace}${printable(`${message}${data}`)}\n`);
}

function indent(text: string): string {
  return text
    .split("\n")
    .map((line) => `  ${line}`)
    .join("\n");
}

/** A frame of code as a person reads it: the line marked, what is around it dim. */
function paint(frame: string, output: Output): string {
  const lines = printable(indent(frame)).split("\n");
  return lines
    .map((line) => {
      if (line.startsWith("  >")) return style("bold", line, output);
      return style(/^[ |\t]*\^$/.test(line) ? "red" : "dim", line, output);
    })
    .join("\n");
}

/** The place of a bundle error, from its own line text. */
function problemFrame(problem: Details, output: Output): string | undefined {
  const { file, line, column, lineText } = problem;
  if (typeof file !== "string" || typeof line !== "number" || typeof lineText !== "string") return undefined;
  const at = typeof column === "number" ? column : 1;
  // codeFrame counts lines from the text's first: the one line is put where it stands.
  const frame = codeFrame({ line: 1, column: at, text: lineText })?.replace("> 1 |", `> ${line} |`);
  const place = `  ${printable(`${file}:${line}:${at}`)}`;
  return frame === undefined ? place : `${place}\n${paint(frame, output)}`;
}

function problemFrames(details: Details, output: Output): string[] {
  const problems = Array.isArray(details.problems) ? (details.problems as readonly JsonValue[]) : [];
  return problems.slice(0, 10).flatMap((problem) => {
    if (!isDetails(problem)) return [];
    return problemFrame(problem, output) ?? [];
  });
}

/** The line of a frame in its source, marked; undefined where it is not known. */
export type ShowCode = (frame: StackFrame) => string | undefined;

/** The error's code and message, then the place in the author's source. */
export function printError(error: ToolErrorData, output: Output, showCode?: ShowCode): void {
  output.write(`${style(["red", "bold"], error.code, output)}: ${printable(error.message)}\n`);
  const details: Details = error.details ?? {};
  const problems = problemFrames(details, output);
  for (const frame of problems) output.write(`\n${frame}\n`);
  const { file, line, column } = details;
  if (problems.length === 0 && typeof file === "string" && typeof line === "number" && typeof column === "number") {
    const frame = showCode?.({ file, line, column });
    if (frame !== undefined) output.write(`\n${paint(frame, output)}\n`);
  }
  const frames = (error.stack ?? "").split("\n").filter((line) => line.startsWith("    at "));
  if (frames.length > 0) output.write(`\n${printable(frames.join("\n"))}\n`);
}

/** JSON leaves some control characters and the marks that turn a line around as they are: escaped, it is the same JSON. Bytes are base64. */
export function toPrintableJson(value: unknown, indent?: number): string {
  return JSON.stringify(toJson(value as ToolValue), null, indent).replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** What a tool would have a model see besides its output stands beside it. */
export function printOutput(
  { output, content }: Extract<ToolResult, { success: true }>,
  target: NodeJS.Process["stdout"],
): void {
  const shown = content === undefined ? output : { output, content };
  target.write(`${toPrintableJson(shown, target.isTTY ? 2 : undefined)}\n`);
}

/** One of a stream, as it comes: in a pipe a line each. */
export function printChunk(value: ToolValue, target: NodeJS.Process["stdout"]): void {
  target.write(`${toPrintableJson(value, target.isTTY ? 2 : undefined)}\n`);
}

/** Milliseconds by step; what is left over is the way between the parts. */
export function printTimes(
  result: ToolResult,
  build: { readonly bundleMs: number; readonly learnMs: number },
  output: Output,
): void {
  const { usage, durationMs } = result;
  const rows: readonly (readonly [string, number])[] = [
    ["bundle", build.bundleMs],
    ["learn", build.learnMs],
    ["queue", usage.queueMs],
    ["start", usage.startMs],
    ["execute", usage.executeMs],
    ["the rest", Math.max(0, durationMs - usage.queueMs - usage.startMs - usage.executeMs)],
    ["call in all", durationMs],
  ];
  for (const [name, ms] of rows) output.write(`${name.padEnd(12)} ${ms.toFixed(1).padStart(9)} ms\n`);
  output.write(`${"CPU".padEnd(12)} ${usage.cpuMs.toFixed(1).padStart(9)} ms\n`);
  output.write(`${"memory".padEnd(12)} ${(usage.heapBytes / 1024 / 1024).toFixed(1).padStart(9)} MiB\n`);
}
