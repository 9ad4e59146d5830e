// Builds the result of run_code: the value or its reference, log lines, the calls that the code made, what it used, and the error if it failed.
import { type ErrorCode, type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import type { NestedCall, ToolUsage } from "../contract/tool-call.ts";
import { withBase64 } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { LogEntry } from "../observability/call-log.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { CallChain } from "../routing/call-chain.ts";
import { toVisibleText } from "../util/visible-text.ts";
import type { StoredValues, ValueScope } from "./stored-values.ts";

/**
 * Outcome of code. `rejected`: it has errors, and nothing of it has run. `failed`: it threw or exceeded a limit; calls that it made before
 * have happened. `approval_required`: it failed because a call waits for approval. `suspended`: it waits for a person in a durable run, which
 * goes on by itself. `running`: a durable run is under way.
 */
export type RunStatus = "ok" | "rejected" | "failed" | "approval_required" | "suspended" | "running";

/** The output of `run_code`. */
export interface RunOutput {
  readonly status: RunStatus;
  /** Value of the last expression or of `return`, if it is small. */
  readonly value?: JsonValue;
  /** Reference of a value that was stored because it is large; load it with `result.load(saved)`. */
  readonly saved?: { readonly [field: string]: JsonValue };
  /** Errors in the code, with `line` and `column` from 1. */
  readonly diagnostics?: readonly JsonValue[];
  /** Declarations of the tools that the errors concern. */
  readonly declarations?: string;
  readonly error?: { readonly [field: string]: JsonValue };
  /** Calls that wait for approval. */
  readonly approvals?: readonly { readonly id: string; readonly tool: string }[];
  /** The durable run that waits, and what for. */
  readonly run?: {
    readonly id: string;
    readonly waits: readonly {
      readonly id: number;
      readonly kind: string;
      /** Name of the event. */
      readonly name?: string;
      readonly message?: string;
      /** Time in ms since 1970 at which the wait ends by itself. */
      readonly until?: number;
    }[];
  };
  readonly logs?: readonly string[];
  /**
   * Calls of tools, by the tool's name in code. `unfinished` counts those that were stopped before they had ended, for example because the code
   * had: they may have had effects.
   */
  readonly calls?: readonly {
    readonly tool: string;
    readonly count: number;
    readonly failed?: number;
    readonly unfinished?: number;
    readonly ms: number;
  }[];
  readonly usage?: {
    readonly ms: number;
    readonly cpuMs: number;
    readonly checkMs?: number;
    readonly buildMs?: number;
  };
  readonly hint?: string;
}

/** Failures that belong to the code, and that the model can read about and mend. Others fail the call of run_code. */
const CODE_FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(["TOOL_FAILED", "OUTPUT_INVALID", "OUTPUT_TOO_LARGE", "MEMORY_LIMIT", "CPU_LIMIT", "TOOL_TIMEOUT"] as const),
  ...(["CAPABILITY_DENIED", "QUOTA_EXCEEDED", "APPROVAL_REQUIRED", "PARAM_INVALID", "BUNDLE_FAILED"] as const),
]);
export const isCodeFailure = ({ code }: ToolError): boolean => CODE_FAILURES.has(code);

const MAX_MESSAGE = 2_000;
const MAX_STACK = 1_000;

const cut = (text: string, maxLength: number): string => {
  const shown = toVisibleText(text);
  return shown.length <= maxLength ? shown : `${shown.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, "")}…`;
};

/** Returns the log lines as text, the newest dropped first. */
export function toLogLines(entries: readonly LogEntry[], dropped: number, maxBytes: number): readonly string[] {
  const lines: string[] = [];
  let bytes = 0;
  for (const { level, message, data } of entries) {
    const text = `${level === "info" ? "" : `${level}: `}${message}${data === undefined ? "" : ` ${JSON.stringify(data)}`}`;
    const left = maxBytes - bytes;
    if (left <= 0) break;
    const line = cut(text, left);
    lines.push(line);
    bytes += Buffer.byteLength(line);
  }
  const missing = dropped + entries.length - lines.length;
  return missing > 0 ? [...lines, `(${missing} more lines)`] : lines;
}

const MAX_TOOLS = 50;

/** Outcomes of a call that was stopped, so that what it did is unknown. */
const STOPPED: ReadonlySet<string> = new Set(["CANCELLED", "TOOL_TIMEOUT"] satisfies ErrorCode[]);

/** Returns the calls by tool, also those that are under way. @param nameOf returns the name of a tool in code */
export function toCalls(
  { calls = [], openCalls }: Pick<CallChain, "calls" | "openCalls">,
  nameOf: (toolName: string) => string,
): NonNullable<RunOutput["calls"]> {
  const now = performance.now();
  const open = openCalls.map(({ toolName, startedAt }) => ({
    toolName,
    durationMs: now - startedAt,
    code: "CANCELLED",
  }));
  const byTool = Map.groupBy<string, Pick<NestedCall, "toolName" | "durationMs"> & { readonly code: string }>(
    [...calls, ...open],
    ({ toolName }) => toolName,
  );
  return [...byTool].slice(0, MAX_TOOLS).map(([toolName, made]) => {
    const unfinished = made.filter(({ code }) => STOPPED.has(code)).length;
    const failed = made.filter(({ code }) => code !== "ok").length - unfinished;
    const ms = Math.round(made.reduce((sum, { durationMs }) => sum + durationMs, 0));
    const counts = { ...(failed === 0 ? {} : { failed }), ...(unfinished === 0 ? {} : { unfinished }) };
    return { tool: nameOf(toolName), count: made.length, ...counts, ms };
  });
}

/** Returns what a model should know of a run that says nothing else: what was not awaited, and what code cannot have. */
export function hintOf(
  { status, error }: Pick<RunOutput, "status" | "error">,
  calls: NonNullable<RunOutput["calls"]>,
): string | undefined {
  const unfinished = calls.filter((one) => one.unfinished !== undefined).map(({ tool }) => tool);
  if (status === "ok" && unfinished.length > 0) {
    return `The code ended before its calls of ${unfinished.join(", ")} had: their results are missing, and they may have had effects. Write \`await\` before each call, and \`await Promise.all(list)\` (Python: \`await asyncio.gather(*list)\`) for a list of calls`;
  }
  if (status === "failed" && error?.code === "CAPABILITY_DENIED") {
    return "Code has no network and no files, only its tools and globals. Find a tool with search_tools";
  }
  return undefined;
}

export const toShownMessage = (message: string): string => cut(message, MAX_MESSAGE);

/** Describes a failure of the code for the model. */
export function toErrorFields({ code, message, details, guestStack }: ToolError): NonNullable<RunOutput["error"]> {
  const { errorName, line, column } = details ?? {};
  const frames = guestStack?.split("\n").slice(1, 6).join("\n").trim();
  return {
    code,
    ...(typeof errorName === "string" && errorName !== "Error" ? { name: errorName } : {}),
    message: toShownMessage(message),
    ...(typeof line === "number" ? { line } : {}),
    ...(typeof column === "number" ? { column } : {}),
    ...(frames === undefined || frames === "" ? {} : { stack: cut(frames, MAX_STACK) }),
  };
}

export const usageOf = (usage: ToolUsage, durationMs: number): { ms: number; cpuMs: number } => ({
  ms: Math.round(durationMs),
  cpuMs: Math.round(usage.cpuMs),
});

const CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;

/**
 * Parses the value that the code returned. Its text comes from the guest and is untrusted.
 * @throws {ToolError} OUTPUT_INVALID, OUTPUT_TOO_LARGE
 */
export async function readValue(
  execution: Extract<Execution, { outputText: unknown }>,
  { limits, signal }: PreparedCall,
): Promise<{ readonly value: JsonValue; readonly bytes: number }> {
  const { outputText, outputBytes, cpuAccount } = execution;
  const attachments = outputBytes === undefined ? undefined : await outputBytes();
  const text = attachments === undefined ? outputText : withBase64(outputText.toString(), attachments);
  const bounds = { bytes: limits.outputBytes, depth: limits.jsonDepth, values: limits.jsonValues };
  const what = "The value of the code";
  const value = isSmallJson(text)
    ? parseSmallJson(text.toString(), bounds, CODES, what)
    : await parseLargeText(text, bounds, CODES, what, signal, cpuAccount);
  return { value, bytes: Buffer.byteLength(JSON.stringify(value)) };
}

/** A function arrives as this text, which code can also return as a string. */
const isUncalled = (value: JsonValue): boolean =>
  typeof value === "string" && /^\[Function: [^\]]{0,200}\]$/.test(value);

/** Returns the value, or its reference if it is large. */
export async function toValueFields(
  { value, bytes }: { readonly value: JsonValue; readonly bytes: number },
  maxBytes: number,
  values: StoredValues,
  scope: ValueScope,
): Promise<Pick<RunOutput, "value" | "saved" | "hint">> {
  if (isUncalled(value))
    return {
      value,
      hint: "The value looks like a function that was not called. If it is, call it, or return its result",
    };
  if (bytes <= maxBytes) return { value };
  const name = `value-${Date.now().toString(36)}${Math.floor(Math.random() * 1_296).toString(36)}`;
  try {
    const saved = await values.save(scope, name, value);
    const hint = `The value has ${bytes} bytes, more than ${maxBytes}, so it was saved. Use result.load("${saved.saved}") in later code, or return less`;
    return { saved: { ...saved }, hint };
  } catch (thrown) {
    if (!(Error.isError(thrown) && thrown instanceof ToolError && thrown.code === "QUOTA_EXCEEDED")) throw thrown;
    return {
      hint: `The value has ${bytes} bytes, more than ${maxBytes}, and could not be saved: ${thrown.message}. Return less`,
    };
  }
}
