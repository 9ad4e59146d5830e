// Converts the result of a call to what is stored of it: without secrets, within the tenant's retention, and with what is known of its effects.
import { type ErrorCode, type NestedCall, redact, type ToolResult, toJson } from "../../host/index.ts";
import type { CallOutcome } from "../records/calls.ts";
import type { TenantPolicy } from "../records/tenant-policy.ts";

/** Longest text of an input, an output or a log that is stored, in UTF-16 code units. Longer texts are shortened by redaction. */
const MAX_TEXT = 65_536;
const REDACTION = { maxTextUnits: MAX_TEXT, maxValues: 50_000, maxDepth: 64 } as const;

/** Failures before the tool's first line, whatever the usage says. */
const BEFORE_RUN: ReadonlySet<ErrorCode> = new Set([
  "PARAM_INVALID",
  "TOOL_UNAVAILABLE",
  "QUOTA_EXCEEDED",
  "OVERLOADED",
  "APPROVAL_REQUIRED",
]);

/** Returns what is known of a call's effects. `none` means that no line of the tool has run. */
export function effectsOf(result: ToolResult): CallOutcome["effects"] {
  if (result.success) return "complete";
  const { executeMs, startMs, cpuMs } = result.usage;
  if (executeMs > 0 || startMs > 0 || cpuMs > 0) return "possible";
  return BEFORE_RUN.has(result.error.code) ? "none" : "possible";
}

/** Returns JSON text of a value without the secrets in it. */
export const toStoredJson = (value: unknown): string => JSON.stringify(redact(value, REDACTION) ?? null);

/** Returns the stored input of a queued call without the secrets in it. */
export const toStoredInput = (input: string | null): string | null =>
  input === null ? null : toStoredJson(JSON.parse(input));

const withoutTimeline = ({ timeline: _, calls, ...call }: NestedCall): NestedCall => ({
  ...call,
  ...(calls === undefined ? {} : { calls: calls.map(withoutTimeline) }),
});

/**
 * Returns what is stored of a call.
 * @param input the input of the call, unless it is stored already
 */
export function toOutcome(
  result: ToolResult,
  input: unknown,
  { retention }: Pick<TenantPolicy, "retention">,
): CallOutcome {
  const { keepContent } = retention;
  const { logs, usage, calls, toolVersion, timeline } = result;
  return {
    state: result.success ? "succeeded" : result.error.code === "CANCELLED" ? "cancelled" : "failed",
    effects: effectsOf(result),
    tool_version: toolVersion === undefined ? null : Number(toolVersion),
    input: keepContent ? toStoredJson(input ?? {}) : null,
    output: keepContent && result.success ? toStoredJson(toJson(result.output)) : null,
    error: result.success ? null : toStoredJson(result.error),
    logs: logs.length === 0 ? null : toStoredJson(logs),
    usage: JSON.stringify(usage),
    calls: calls === undefined ? null : JSON.stringify(calls.map(withoutTimeline)),
    timeline: timeline === undefined ? null : JSON.stringify({ spans: timeline, calls: calls ?? [] }),
    ended_at: Date.now(),
  };
}
