// Checks what a person or a program gives a run, and converts it to an entry of the audit log.
import type { RunSignal, RunWait } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import type { RunsTable } from "../database/tables/call-tables.ts";
import { hasAnswer, type RunRow } from "../records/calls/runs.ts";

/** Why a run cannot be changed. */
export class RunConflict extends Error {
  override readonly name = "RunConflict";
}

export const isEnded = ({ state }: Pick<RunsTable, "state">): boolean => state !== "running" && state !== "suspended";

/** Returns how the audit log shows an answer: without its value. @param answered the wait that it ends */
export function toAudit(
  signal: RunSignal,
  answered: RunWait | undefined,
): {
  readonly action: string;
  readonly details: { readonly [name: string]: unknown };
} {
  if ("event" in signal) return { action: "run.event", details: { event: signal.event } };
  if ("elicitation" in signal)
    return { action: "run.answered", details: { wait: signal.elicitation, action: signal.action } };
  const { approval: wait, approved, reason } = signal;
  const { toolName: tool, toolDigest } = answered ?? {};
  return { action: approved ? "run.approved" : "run.denied", details: { wait, reason, tool, toolDigest } };
}

/** Returns the wait that an answer ends. @throws {RunConflict} if the run does not wait for it, or has it */
export async function checkWait(
  db: Db,
  row: RunRow,
  signal: Exclude<RunSignal, { event: string }>,
  now: number,
): Promise<RunWait> {
  const { kind, wait } =
    "approval" in signal
      ? ({ kind: "approval", wait: signal.approval } as const)
      : ({ kind: "elicitation", wait: signal.elicitation } as const);
  const waits = JSON.parse(row.waits) as readonly RunWait[];
  const found = waits.find((one) => one.id === wait && one.kind === kind);
  if (found === undefined) throw new RunConflict(`The run does not wait for ${kind} ${wait}`);
  // The approval of a call, which the policy limits.
  if (found.toolDigest !== undefined && found.until !== undefined && found.until <= now)
    throw new RunConflict("The time to decide about this call is over");
  if (await hasAnswer(db, { tenantId: row.tenant_id, id: row.id }, kind, wait))
    throw new RunConflict(`${kind === "approval" ? "Approval" : "Elicitation"} ${wait} of the run was answered before`);
  return found;
}
