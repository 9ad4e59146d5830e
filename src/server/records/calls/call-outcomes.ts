// Stores how calls ended: a result that counts only under the claim of the process that has it, with usage and events in the same transaction,
// and the cancellation of calls.

import { violatesConstraint } from "../../database/database-errors.ts";
import type { Db } from "../../database/open-database.ts";
import type { StoredCallState } from "../../database/tables/call-tables.ts";
import { emitEvents } from "../events/webhooks.ts";
import { addUsage } from "../reports/usage.ts";
import { HistoryRoom } from "../tenants/stored-bytes.ts";
import type { CallClaim } from "./call-claims.ts";
import {
  type CallExtras,
  type ContentColumn,
  deleteContents,
  OMITTED,
  separateContents,
  withContents,
} from "./call-contents.ts";
import { type CallRow, findCall, insertCalls, parseColumn, WAITING_STATES } from "./calls.ts";

/** A call that has ended, with what is stored of it apart from its row. */
export interface EndedCall extends CallExtras {
  readonly row: CallRow;
}

/** The outcome of a call, as it is stored. */
export type CallOutcome = Pick<
  CallRow,
  | "state"
  | "effects"
  | "tool_version"
  | "input"
  | "output"
  | "error"
  | "logs"
  | "usage"
  | "calls"
  | "timeline"
  | "ended_at"
> &
  /** Null for a call that ends without having begun, so that another call can have its key. Default: the call keeps its key. */
  Partial<Pick<CallRow, "idempotency_key" | "request_hash">>;

/**
 * Stores the outcome of a claimed call. Returns false if another process has claimed the call meanwhile, whose outcome counts.
 * @param from the state that the call must have
 */
export async function storeOutcome(
  db: Db,
  { id, fence }: CallClaim,
  outcome: CallOutcome,
  from: StoredCallState = "running",
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set({ ...outcome, lease_owner: null, lease_until: null })
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", from)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Adds the usage of calls that have ended, and tells webhooks. */
async function recordEnded(transaction: Db, rows: readonly CallRow[]): Promise<void> {
  // The usage of a run was added with each of its attempts.
  await addUsage(
    transaction,
    rows.filter(({ mode }) => mode !== "run"),
  );
  await emitEvents(
    transaction,
    // A receiver that wants the calls below a call reads its tree.
    rows
      .filter((row) => row.parent_id === null)
      .map((row) => ({
        tenantId: row.tenant_id,
        type: `call.${row.state as "succeeded" | "failed" | "cancelled"}` as const,
        // Without input and output: a receiver fetches them with a key that may read them.
        data: {
          id: row.id,
          tool: row.tool_name,
          version: row.tool_version,
          alias: row.alias,
          mode: row.mode,
          state: row.state,
          effects: row.effects,
          error: parseColumn(row.error),
          caller: row.key_id,
          createdAt: row.created_at,
          endedAt: row.ended_at,
        },
      })),
  );
}

/** Stores the outcome of a claimed call and its usage, both or none. Returns false as {@link storeOutcome} does. */
export async function finishCall(
  db: Db,
  row: CallRow,
  outcome: CallOutcome,
  extras: CallExtras = {},
): Promise<boolean> {
  return await db
    .transaction()
    .execute(async (transaction) => await endCall(transaction, row, outcome, "running", extras));
}

/**
 * Ends a call that has a row, as part of a transaction.
 * @param from the state that the call must have
 * @returns whether it had that state, and no other process has claimed it
 */
export async function endCall(
  transaction: Db,
  row: CallRow,
  outcome: CallOutcome,
  from: StoredCallState,
  extras: CallExtras = {},
): Promise<boolean> {
  const key = { id: row.id, tenantId: row.tenant_id };
  const room = await HistoryRoom.read(transaction, [row.tenant_id], true);
  const kept = withinRoom(room, row.tenant_id, outcome, extras);
  const { texts, store } = await separateContents(transaction, key, kept.outcome, kept.extras);
  const isStored = await storeOutcome(transaction, row, { ...outcome, logs: kept.outcome.logs, ...texts }, from);
  if (!isStored) return false;
  await deleteContents(transaction, row.id);
  await store();
  await recordEnded(transaction, [{ ...row, ...outcome }]);
  return true;
}

type KeptContents = Pick<CallOutcome, ContentColumn | "logs">;

/** Returns what is stored of a call that has ended: without contents if its tenant has no room for them. */
function withinRoom(
  room: HistoryRoom,
  tenantId: string,
  { input, output, timeline, logs }: KeptContents,
  extras: CallExtras,
): {
  readonly outcome: { readonly [Name in ContentColumn]: string | null | typeof OMITTED } & Pick<KeptContents, "logs">;
  readonly extras: CallExtras;
} {
  const { recording, parts } = extras;
  if (room.take(tenantId, [input, output, timeline, logs, recording, parts]))
    return { outcome: { input, output, timeline, logs }, extras };
  const omit = (text: string | null): typeof OMITTED | null => (text === null ? null : OMITTED);
  return { outcome: { input: omit(input), output: omit(output), timeline: omit(timeline), logs: null }, extras: {} };
}

/** Inserts calls that have ended, and their usage, all or nothing. Part of a transaction, if `db` is one. */
export async function insertEndedCalls(db: Db, ended: readonly EndedCall[]): Promise<void> {
  if (!db.isTransaction) {
    await db.transaction().execute((transaction) => insertEndedCalls(transaction, ended));
    return;
  }
  const transaction = db;
  const rows = ended.map(({ row }) => row);
  const room = await HistoryRoom.read(
    transaction,
    rows.map(({ tenant_id: tenantId }) => tenantId),
    false,
  );
  const separated = await Promise.all(
    ended.map(async ({ row, ...extras }) => {
      const kept = withinRoom(room, row.tenant_id, row, extras);
      const key = { id: row.id, tenantId: row.tenant_id };
      const { texts, store } = await separateContents(transaction, key, kept.outcome, kept.extras);
      return { row: { ...row, logs: kept.outcome.logs, ...texts }, store };
    }),
  );
  await insertCalls(
    transaction,
    separated.map(({ row }) => row),
  );
  for (const { store } of separated) await store();
  await recordEnded(transaction, rows);
}

/**
 * Inserts a call that has ended, and its usage, unless the call has a row.
 * @returns that row
 */
export async function insertEndedOnce(db: Db, ended: EndedCall): Promise<CallRow | undefined> {
  try {
    await insertEndedCalls(db, [ended]);
    return undefined;
  } catch (thrown) {
    const { tenant_id: tenantId, id } = ended.row;
    const found = violatesConstraint(thrown) ? await findCall(db, tenantId, id) : undefined;
    if (found === undefined) throw thrown;
    return found;
  }
}

/**
 * Returns what is stored of a call that the database has rejected with a value that it cannot store: which tool was called, when, by whom and how
 * it ended. Its texts are left out.
 */
export function toStorableCall({ row }: EndedCall): EndedCall {
  const { error } = row;
  const code = error === null ? undefined : (JSON.parse(error) as { readonly code?: unknown }).code;
  const message = "The database could not store the record of this call: its texts are left out";
  return {
    row: {
      ...row,
      tool_name: toStorableName(row.tool_name),
      alias: toStorableName(row.alias),
      session_id: null,
      key_id: row.key_id.replaceAll("\0", "?").toWellFormed(),
      input: null,
      output: null,
      logs: null,
      usage: null,
      calls: null,
      timeline: null,
      content: 0,
      error: error === null ? null : JSON.stringify({ code: String(code), message, recoverable: false }),
    },
  };
}

/** Returns a name of a tool or an alias in which `?` stands for each character that it cannot have. */
const toStorableName = (name: string): string => name.slice(0, 128).replaceAll(/[^A-Za-z0-9_.-]/g, "?");

/** Returns the outcome of a call that ends without having run. */
export const notRunOutcome = (
  row: CallRow,
  state: "failed" | "cancelled",
  error: object,
  input: string | null,
): CallOutcome => ({
  state,
  effects: "none",
  tool_version: row.tool_version,
  input,
  output: null,
  error: JSON.stringify(error),
  logs: null,
  usage: null,
  calls: null,
  timeline: null,
  ended_at: Date.now(),
});

/**
 * Cancels a call that waits, or requests that of the process that runs it. Returns what the call was.
 * @param toStored returns what is kept of the input of a call that has not run. Default: all of it
 */
export async function requestCancel(
  db: Db,
  tenantId: string,
  id: string,
  toStored: (input: string | null) => string | null = (input) => input,
): Promise<StoredCallState | undefined> {
  return await db.transaction().execute(async (transaction) => {
    let found = await findCall(transaction, tenantId, id);
    // Twice, because an approval that is given meanwhile puts the call into the queue.
    for (let tries = 0; tries < 2; tries += 1) {
      if (found === undefined || !WAITING_STATES.includes(found.state)) break;
      // Before the call, as every decision about an approval does: each of the two would wait for the other.
      await transaction
        .updateTable("approvals")
        .set({ state: "cancelled", decided_at: Date.now() })
        .where("call_id", "=", id)
        .where("state", "=", "pending")
        .execute();
      const input = toStored((await withContents(transaction, found)).input);
      const error = { code: "CANCELLED", message: "The call was cancelled before it ran", recoverable: true };
      const outcome = notRunOutcome(found, "cancelled", error, input);
      if (await endCall(transaction, found, outcome, found.state)) return found.state;
      found = await findCall(transaction, tenantId, id);
    }
    if (found === undefined) return undefined;
    const { numUpdatedRows } = await transaction
      .updateTable("calls")
      .set({ cancel_requested: 1 })
      .where("tenant_id", "=", tenantId)
      .where("id", "=", id)
      .where("state", "=", "running")
      .executeTakeFirst();
    // Another process may have ended it meanwhile.
    return numUpdatedRows > 0n ? "running" : (await findCall(transaction, tenantId, id))?.state;
  });
}
