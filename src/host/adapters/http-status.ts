// Maps a failed call to an HTTP status and a Retry-After header, for hosts that serve tools over HTTP and for the OpenAPI document.
import { ERROR_CODES, type ErrorCode, type ErrorDetails, unavailablePolicyOf } from "../../sandbox/contract/errors.ts";

/** The fields that determine the status: the `error` of a {@link ToolResult}, or a ToolError. */
export interface FailedCall {
  readonly code: ErrorCode;
  readonly details?: ErrorDetails | undefined;
}

/** Retry-After in seconds if the error does not state a time. */
const RETRY_SECONDS = 1;
/** Returns whether a failure is one of the conditions that soon end without intervention: OVERLOADED, and recoverable reasons with 503. */
function isTransient(error: FailedCall): boolean {
  if (readProperty(error, "code") === "OVERLOADED") return true;
  const reason = readProperty(readProperty(error, "details"), "reason");
  return toHttpStatus(error) === 503 && unavailablePolicyOf(reason)?.recoverable === true;
}

const isErrorCode = (code: unknown): code is ErrorCode => typeof code === "string" && Object.hasOwn(ERROR_CODES, code);

/** Reads a property of any value. Returns undefined if reading it throws. */
function readProperty(value: unknown, key: string): unknown {
  try {
    return (value as { readonly [key: string]: unknown } | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

/**
 * Returns the HTTP status of a failed call: the status of its code in {@link ERROR_CODES}; for TOOL_UNAVAILABLE, the status of its
 * `details.reason` in {@link UNAVAILABLE_REASONS}. Returns 500 for any other value. Never throws.
 * @example
 * ```ts
 * import { createGlovebox, toHttpStatus } from "glovebox";
 * await using glovebox = await createGlovebox();
 * const result = await glovebox.execute({ id: "c1", toolName: "missing", arguments: {} });
 * console.log(result.success ? 200 : toHttpStatus(result.error)); // 404
 * ```
 */
export function toHttpStatus(error: FailedCall): number {
  const code = readProperty(error, "code");
  if (!isErrorCode(code)) return ERROR_CODES.INTERNAL.http;
  if (code !== "TOOL_UNAVAILABLE") return ERROR_CODES[code].http;
  return (unavailablePolicyOf(readProperty(readProperty(error, "details"), "reason")) ?? ERROR_CODES[code]).http;
}

/**
 * Returns the value of the `Retry-After` header of a failed call, in whole seconds of at least 1:
 * `details.retryAfterMs` rounded up, or 1 without it for OVERLOADED and for recoverable reasons of TOOL_UNAVAILABLE
 * with status 503. Returns undefined if the status is neither 429 nor 503, or if no time is known. Never throws.
 * @example
 * ```ts
 * import { toRetryAfterSeconds } from "glovebox";
 *
 * console.log(toRetryAfterSeconds({ code: "QUOTA_EXCEEDED", details: { retryAfterMs: 1_500 } })); // 2
 * ```
 */
export function toRetryAfterSeconds(error: FailedCall): number | undefined {
  const status = toHttpStatus(error);
  if (status !== 429 && status !== 503) return undefined;
  const retryAfterMs = readProperty(readProperty(error, "details"), "retryAfterMs");
  if (typeof retryAfterMs === "number" && Number.isFinite(retryAfterMs) && retryAfterMs >= 0) {
    return Math.max(1, Math.ceil(retryAfterMs / 1_000));
  }
  return isTransient(error) ? RETRY_SECONDS : undefined;
}
