// Converts the result of a call to what is stored of it: without secrets, within the tenant's retention, and with what is known of its effects.
import { createRedactor, type ErrorCode, type NestedCall, type ToolResult, toJson } from "../../host/index.ts";
import type { CallOutcome } from "../records/calls/call-outcomes.ts";
import type { ServerTenantPolicy } from "../records/tenants/tenant-policy.ts";

/** Longest text of an input, an output or a log that is stored, in UTF-16 code units. Longer texts are shortened by redaction. */
const MAX_TEXT = 65_536;
const redactStored = createRedactor({ maxTextUnits: MAX_TEXT, maxValues: 50_000, maxDepth: 64 });

/** Failures before the tool's first line, whatever the usage says. */
const BEFORE_RUN: ReadonlySet<ErrorCode> = new Set([
  "PARAM_INVALID",
  "TOOL_UNAVAILABLE",
  "QUOTA_EXCEEDED",
  "OVERLOADED",
  "APPROVAL_REQUIRED",
]);

/** Returns what is known of a call's effects. `none` means that no effect of the tool can have left the sandbox. */
export function effectsOf(result: ToolResult): CallOutcome["effects"] {
  if (result.success) return "complete";
  const { executeMs, startMs, cpuMs } = result.usage;
  if (executeMs > 0 || startMs > 0 || cpuMs > 0) return "possible";
  // The server requests a timeline for each call: one that reached its tool has more than the span of its validation.
  if ((result.timeline ?? []).every(({ kind }) => kind === "validate")) return "none";
  const { code, details } = result.error;
  return BEFORE_RUN.has(code) || (code === "INTERNAL" && details?.reason === "code_not_loaded") ? "none" : "possible";
}

/** Returns JSON text of a value without the secrets in it. */
export function toStoredJson(value: unknown): string {
  // A number alone is not a secret unless it has many digits, and redaction has a price for each value.
  const isPlain = value === null || typeof value === "boolean" || (typeof value === "number" && Math.abs(value) < 1e9);
  return JSON.stringify((isPlain ? value : redactStored(value)) ?? null);
}

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
 * @param now when the call has ended, by the clock of its start. Default: by that of this machine
 */
export function toOutcome(
  result: ToolResult,
  input: unknown,
  { retention }: Pick<ServerTenantPolicy, "retention">,
  now: number = Date.now(),
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
    // Nested calls have records with timelines of their own.
    timeline: timeline === undefined ? null : JSON.stringify({ spans: timeline }),
    ended_at: now,
  };
}

/** Longest base64 text of all images, audio and other bytes of one output that is stored. */
const MAX_PARTS_LENGTH = 4 * 1024 * 1024;

/** Returns content parts as JSON has them: bytes as base64. */
export const toJsonParts = (result: ToolResult): readonly JsonPart[] | undefined =>
  result.success && result.content !== undefined && result.content.length > 0
    ? (toJson(result.content as never) as unknown as readonly JsonPart[])
    : undefined;

interface JsonPart {
  readonly type: string;
  readonly data?: string;
  readonly mimeType?: string;
  readonly resource?: { readonly blob?: string; readonly [name: string]: unknown };
  readonly [name: string]: unknown;
}

/** Returns the stored copy of content parts: text without secrets, and no bytes above the limit. */
export function toStoredParts(result: ToolResult, keepContent: boolean): string | undefined {
  const parts = keepContent ? toJsonParts(result) : undefined;
  if (parts === undefined) return undefined;
  let left = MAX_PARTS_LENGTH;
  const stored = parts.map((part) => {
    const bytes = part.data ?? part.resource?.blob ?? "";
    const { data, resource: { blob, ...resource } = {}, ...rest } = part;
    const kept = redactStored(part.resource === undefined ? rest : { ...rest, resource }) as JsonPart;
    if (bytes === "") return kept;
    left -= bytes.length;
    if (left < 0) return { ...kept, isOmitted: true };
    return data === undefined ? { ...kept, resource: { ...kept.resource, blob } } : { ...kept, data };
  });
  return JSON.stringify(stored);
}
