// How an attempt of a run becomes the state of the run: its result, and when a run that could not begin tries again.
import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { failedResultOf } from "../pipeline/normalize.ts";
import type { RunCompensation } from "./run-rollback.ts";
import type { RunRecord } from "./run-store.ts";
import type { RunWait } from "./run-wait.ts";

/** Returns the result of a run that fails outside of the Glovebox. */
export const toFailedResult = ({ id, toolName }: RunRecord, error: ToolError): ToolResult =>
  failedResultOf({ callId: id, toolName }, error);

/** Returns the message of an attempt's error. If it has timed out while it waited, the message says why the wait did not suspend the run. */
export function messageWithWaits(error: Pick<ToolError, "code" | "message">, waits: readonly RunWait[]): string {
  const [wait] = waits;
  if (error.code !== "TOOL_TIMEOUT" || wait === undefined) return error.message;
  const what = wait.name === undefined ? `${wait.kind} ${wait.id}` : `the event ${JSON.stringify(wait.name)}`;
  return `${error.message}. It waited for ${what}, but a timer or a call was under way too, so it was not suspended`;
}

/** Adds the functions of ctx.onRollback to the error of a run. */
export function withRollback(result: ToolResult, compensations: readonly RunCompensation[]): ToolResult {
  if (result.success) return result;
  const rollback = compensations.map((one) => ({ ...one }));
  return { ...result, error: { ...result.error, details: { ...result.error.details, rollback } } };
}

/** Returns the state of a run that ends with a result. */
export const stateOf = (result: ToolResult): "succeeded" | "failed" | "cancelled" =>
  result.success ? "succeeded" : result.error.code === "CANCELLED" ? "cancelled" : "failed";

/** Shortest time in ms until a run that the host has interrupted tries again. */
export const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 3_600_000;
/** Reasons of TOOL_UNAVAILABLE that concern the host at this moment, and not the run. */
const HOST_REASONS: ReadonlySet<unknown> = new Set([
  ...["closed", "shutting_down", "circuit_open", "quota_store_failed", "tenant_suspended"],
]);

/**
 * Returns the time in ms after which a run that could not begin its attempt tries again; undefined if the attempt has
 * begun or must not be repeated.
 */
export function retryAfter(result: ToolResult): number | undefined {
  if (result.success) return undefined;
  const { executeMs, startMs, cpuMs, queueMs } = result.usage;
  const { code, details = {} } = result.error;
  const { retryAfterMs, reason } = details;
  // Its attempt was stopped with the calls of its tenant. It continues from its journal, as after the end of a process.
  if (code === "CANCELLED" && reason === "tenant_suspended") return RETRY_MS;
  const isTemporary =
    code === "OVERLOADED" ||
    // Its time was over before a process was free for it. If it was over before it was queued, the same would happen again.
    (code === "TOOL_TIMEOUT" && queueMs > 0) ||
    (code === "QUOTA_EXCEEDED" && typeof retryAfterMs === "number") ||
    (code === "TOOL_UNAVAILABLE" && HOST_REASONS.has(reason));
  if (!isTemporary || executeMs > 0 || startMs > 0 || cpuMs > 0) return undefined;
  return Math.min(Math.max(Number(retryAfterMs ?? RETRY_MS) || RETRY_MS, RETRY_MS), LONGEST_RETRY_MS);
}
