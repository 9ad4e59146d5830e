// Reads what a caller passed to the router: the call, its context, and the names for a result if either is invalid.
import { checkTimeout, type NamedContext, readContext } from "../pipeline/read-context.ts";
import { type CallEnvelope, readEnvelope } from "../pipeline/validate.ts";
import type { Tenancy } from "../tenants/tenancy.ts";

/** Returns the envelope of a call, or the error that says what is wrong with it. */
export function tryReadEnvelope(
  toolCall: unknown,
  timeoutMs: unknown,
): { readonly envelope?: CallEnvelope; readonly issue?: unknown } {
  try {
    const envelope = readEnvelope(toolCall);
    checkTimeout(timeoutMs, "timeoutMs");
    return { envelope };
  } catch (issue) {
    return { issue };
  }
}

/** Reads the context of a call. If both are invalid, throws the issue of the call rather than that of its context. */
export function readContextAfter(context: unknown, tenancy: Tenancy | undefined, issue: unknown): NamedContext {
  try {
    return readContext(context, tenancy);
  } catch (thrown) {
    throw issue ?? thrown;
  }
}

/** Returns the names that a result carries if the call itself is invalid: its id and tool name, truncated, or empty strings. */
export function readNames(toolCall: unknown): { readonly callId: string; readonly toolName: string } {
  try {
    const { id, toolName } = toolCall as { readonly id?: unknown; readonly toolName?: unknown };
    return {
      callId: typeof id === "string" ? id.slice(0, 1_024) : "",
      toolName: typeof toolName === "string" ? toolName.slice(0, 128) : "",
    };
  } catch {
    return { callId: "", toolName: "" };
  }
}
