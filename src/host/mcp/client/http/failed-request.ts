// Reads the status and the body of a failed HTTP request from the error of the SDK's transport.
import { InsufficientScopeError, SdkError } from "@modelcontextprotocol/client";

const dataOf = (thrown: unknown): { readonly status?: unknown; readonly text?: unknown } =>
  (thrown instanceof SdkError ? (thrown.data ?? {}) : {}) as object;

/** Returns the HTTP status of a failed request. */
export function statusOf(thrown: unknown): number | undefined {
  if (thrown instanceof InsufficientScopeError) return 403;
  const { status } = dataOf(thrown);
  return typeof status === "number" ? status : undefined;
}

/** Returns the body of a failed request. Untrusted text. */
export function textOf(thrown: unknown): string | undefined {
  const { text } = dataOf(thrown);
  return typeof text === "string" ? text : undefined;
}
