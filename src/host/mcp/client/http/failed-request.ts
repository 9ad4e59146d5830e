// Reads what a server says about a failed HTTP request: its status and body from the error of the SDK's transport, and the time to wait.
import { InsufficientScopeError, SdkError } from "@modelcontextprotocol/client";

const dataOf = (thrown: unknown): { readonly status?: unknown; readonly text?: unknown } =>
  (thrown instanceof SdkError ? (thrown.data ?? {}) : {}) as object;

/** Returns the HTTP status of a failed request. */
export function statusOf(thrown: unknown): number | undefined {
  if (thrown instanceof InsufficientScopeError) return 403;
  const { status } = dataOf(thrown);
  return typeof status === "number" ? status : undefined;
}

/** Longest time in ms that a server can tell callers to wait. */
const MAX_RETRY_MS = 3_600_000;

/** Returns the time in ms after which a server that is overloaded wants the request again; undefined if it states none. */
export function readRetryAfter({ status, headers }: Response): number | undefined {
  if (status !== 429 && status !== 503) return undefined;
  const text = headers.get("retry-after")?.trim() ?? "";
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : / GMT$/.test(text) ? Date.parse(text) - Date.now() : 0;
  return ms > 0 ? Math.min(ms, MAX_RETRY_MS) : undefined;
}

/** Returns the body of a failed request. Untrusted text. */
export function textOf(thrown: unknown): string | undefined {
  const { text } = dataOf(thrown);
  return typeof text === "string" ? text : undefined;
}
