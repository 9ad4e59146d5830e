// Decides about queued calls whose process is gone: a call runs again only if nothing of it has run, or if its tool is annotated with
// `idempotentHint`. Otherwise it ends, and says whether effects are possible.
import { ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import { requeue } from "../../records/calls/call-claims.ts";
import { withContents } from "../../records/calls/call-contents.ts";
import { finishCall } from "../../records/calls/call-outcomes.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import { findTenant } from "../../records/tenants/tenants.ts";
import { toStoredInput } from "../outcome.ts";

/** Maximum number of claims of a call that has begun each time when its process died, and of one that had not. */
export const MAX_RUNS = 5;
const MAX_CLAIMS = 20;

/**
 * Returns the error of a call whose server ended before the call did.
 * @param call default: a call that had begun and was not cancelled
 */
export function lostError({ hasBegun = true, isCancelled = false } = {}): ToolError {
  const rest = hasBegun ? "Effects of the call are possible" : "The call had not begun";
  const details = { reason: "server_ended" } as const;
  if (isCancelled)
    return new ToolError("CANCELLED", `The call was cancelled, and the server that ran it ended. ${rest}`, { details });
  const message = `The server that ran the call ended before the call did. ${rest}`;
  return new ToolError("SANDBOX_CRASHED", message, { recoverable: false, details });
}

export interface RecoveryDependencies {
  readonly db: Db;
  readonly isIdempotent: (row: CallRow) => Promise<boolean>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Puts a call whose lease has expired back into the queue, or ends it. Returns whether it is in the queue again. */
export async function recoverCall({ db, isIdempotent, now }: RecoveryDependencies, row: CallRow): Promise<boolean> {
  const hasBegun = row.effects !== "none";
  const isCancelled = row.cancel_requested === 1;
  // The client of a synchronous call is gone, and its input is not stored.
  const mayRepeat = row.mode === "async" && !isCancelled && (!hasBegun || (await isIdempotent(row)));
  if (mayRepeat && row.attempts < (hasBegun ? MAX_RUNS : MAX_CLAIMS)) return await requeue(db, row, now());
  const keepContent = (await findTenant(db, row.tenant_id))?.policy.retention.keepContent ?? false;
  await finishCall(db, row, {
    state: isCancelled ? "cancelled" : "failed",
    effects: row.effects,
    tool_version: row.tool_version,
    output: null,
    input: keepContent ? toStoredInput((await withContents(db, row)).input) : null,
    error: JSON.stringify(lostError({ hasBegun, isCancelled }).toData(row.tool_name)),
    logs: null,
    usage: null,
    calls: null,
    timeline: null,
    ended_at: now(),
  });
  return false;
}
