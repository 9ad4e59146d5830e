// Stores calls. The row of an asynchronous call is also its place in the queue: a process claims it with a lease and a number (fence), and a
// result counts only with the number of the latest claim.
import { sql } from "kysely";
import type { JsonValue } from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import type { CallState, CallsTable } from "../database/schema.ts";
import {
  type ContentColumn,
  deleteContents,
  separateColumns,
  separateContents,
  withContents,
} from "./call-contents.ts";
import { addUsage } from "./usage.ts";
import { emitEvents } from "./webhooks.ts";

export type CallRow = CallsTable;

/** A call as the API shows it. */
export interface CallRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly tool: string;
  readonly version: number | null;
  readonly alias: string;
  readonly mode: CallsTable["mode"];
  readonly state: CallState;
  /** `none`: no line of the tool has run, so that a retry is safe. `complete`: the tool has returned. */
  readonly effects: CallsTable["effects"];
  readonly keyId: string;
  readonly sessionId: string | null;
  readonly input: JsonValue;
  readonly output: JsonValue;
  readonly error: JsonValue;
  readonly usage: JsonValue;
  readonly calls: JsonValue;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly attempts: number;
  /** Which of input and output are left out here, because they are large. A single call is shown with them, up to 4 MiB each. */
  readonly omitted: readonly Exclude<ContentColumn, "timeline">[];
}

const parse = (text: string | null): JsonValue => (text === null ? null : (JSON.parse(text) as JsonValue));

export const toCallRecord = (row: CallRow): CallRecord => ({
  ...{ id: row.id, tenantId: row.tenant_id, tool: row.tool_name, version: row.tool_version },
  ...{
    alias: row.alias,
    mode: row.mode,
    state: row.state,
    effects: row.effects,
    keyId: row.key_id,
    sessionId: row.session_id,
  },
  ...{ input: parse(row.input), output: parse(row.output), error: parse(row.error), usage: parse(row.usage) },
  ...{ calls: parse(row.calls), createdAt: row.created_at, startedAt: row.started_at, endedAt: row.ended_at },
  attempts: row.attempts,
  omitted: separateColumns(row).filter(
    (column) => column !== "timeline" && row[column] === null,
  ) as CallRecord["omitted"],
});

/** Returns the timeline of a call, with its nested calls, as the API shows it. */
export const timelineOf = (row: CallRow): JsonValue => parse(row.timeline) ?? { spans: [], calls: [] };

export const logsOf = (row: CallRow): JsonValue => parse(row.logs) ?? [];

/** Rows in one statement: below the limit of parameters of both databases. */
const ROWS_PER_INSERT = 200;

/** @throws what the database throws, also for a tenant that was deleted */
export async function insertCalls(db: Db, rows: readonly CallRow[]): Promise<void> {
  for (let start = 0; start < rows.length; start += ROWS_PER_INSERT) {
    await db
      .insertInto("calls")
      .values(rows.slice(start, start + ROWS_PER_INSERT) as CallRow[])
      .execute();
  }
}

/** Inserts a call unless one with its idempotency key exists. Returns that one. Part of a transaction, if `db` is one. */
export async function insertOnce(db: Db, row: CallRow): Promise<CallRow | undefined> {
  if (!db.isTransaction) {
    return await db.transaction().execute(async (transaction) => await insertOnce(transaction, row));
  }
  // The call needs its input to run, however long it is.
  const key = { id: row.id, tenantId: row.tenant_id };
  const { texts, store } = await separateContents(db, key, row, { keepsAll: true });
  const { numInsertedOrUpdatedRows = 0n } = await db
    .insertInto("calls")
    .values({ ...row, ...texts })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows > 0n) {
    await store();
    return undefined;
  }
  return await db
    .selectFrom("calls")
    .selectAll()
    .where("tenant_id", "=", row.tenant_id)
    .where("idempotency_key", "=", row.idempotency_key)
    .executeTakeFirst();
}

export async function findCall(db: Db, tenantId: string, id: string): Promise<CallRow | undefined> {
  return await db
    .selectFrom("calls")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
}

export interface CallFilter {
  readonly tool?: string | undefined;
  readonly version?: number | undefined;
  readonly state?: CallState | undefined;
  /** Least time in ms from acceptance to the result. */
  readonly minMs?: number | undefined;
  /** Text that the input, output, error or logs contain. Large inputs and outputs, which have a table of their own, are not searched. */
  readonly text?: string | undefined;
  /** Id of the last call of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Calls that one page of a filtered list looks at: a filter that matches nothing must not read the whole table. */
const MAX_SEARCHED = 20_000;

export interface CallPage {
  readonly rows: readonly CallRow[];
  /** Id from which the next page continues; null on the last one. A page of a filtered list can have few calls, and still not be the last. */
  readonly next: string | null;
}

/** Lists the newest calls first. Ids sort by time. @param tenantId default: all tenants */
export async function listCalls(db: Db, tenantId: string | undefined, filter: CallFilter): Promise<CallPage> {
  const { tool, version, state, minMs, text, before, limit } = filter;
  let query = db.selectFrom("calls").selectAll().orderBy("id", "desc");
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  if (before !== undefined) query = query.where("id", "<", before);
  const isFiltered = [tool, version, state, minMs, text].some((value) => value !== undefined);
  // The oldest call that this page looks at; undefined if it reaches the end of the list.
  const searched = isFiltered
    ? await query
        .clearSelect()
        .select("id")
        .offset(MAX_SEARCHED - 1)
        .limit(1)
        .executeTakeFirst()
    : undefined;
  if (searched !== undefined) query = query.where("id", ">=", searched.id);
  if (tool !== undefined) query = query.where("tool_name", "=", tool);
  if (version !== undefined) query = query.where("tool_version", "=", version);
  if (state !== undefined) query = query.where("state", "=", state);
  if (minMs !== undefined) query = query.where(sql<boolean>`ended_at - created_at >= ${minMs}`);
  if (text !== undefined) {
    // `!` escapes, because a backslash means something else in each database.
    const pattern = `%${text.toLowerCase().replaceAll(/[!%_]/g, "!$&")}%`;
    const matches = ["input", "output", "error", "logs"].map(
      (column) => sql<boolean>`lower(${sql.ref(column)}) like ${pattern} escape '!'`,
    );
    query = query.where((of) => of.or(matches));
  }
  const found = await query.limit(limit + 1).execute();
  const rows = found.slice(0, limit);
  return { rows, next: found.length > limit ? (rows.at(-1)?.id ?? null) : (searched?.id ?? null) };
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
>;

/** A claim of a queued call. */
export interface Claim {
  readonly id: string;
  readonly fence: number;
}

/** Stores the outcome of a claimed call. Returns false if another process has claimed the call meanwhile, whose outcome counts. */
export async function storeOutcome(db: Db, { id, fence }: Claim, outcome: CallOutcome): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set({ ...outcome, lease_owner: null, lease_until: null })
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "running")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Adds the usage of calls that have ended, and tells webhooks. */
async function recordEnded(transaction: Db, rows: readonly CallRow[]): Promise<void> {
  await addUsage(transaction, rows);
  await emitEvents(
    transaction,
    rows.map((row) => ({
      tenantId: row.tenant_id,
      type: `call.${row.state as "succeeded" | "failed" | "cancelled"}` as const,
      // Without input and output: a receiver fetches them with a key that may read them.
      data: {
        ...{ id: row.id, tool: row.tool_name, version: row.tool_version, alias: row.alias, mode: row.mode },
        ...{ state: row.state, effects: row.effects, error: parse(row.error), caller: row.key_id },
        ...{ createdAt: row.created_at, endedAt: row.ended_at },
      },
    })),
  );
}

/** Stores the outcome of a claimed call and its usage, both or none. Returns false as {@link storeOutcome} does. */
export async function finishCall(db: Db, row: CallRow, outcome: CallOutcome): Promise<boolean> {
  return await db.transaction().execute(async (transaction) => {
    const key = { id: row.id, tenantId: row.tenant_id };
    const { texts, store } = await separateContents(transaction, key, outcome);
    const isStored = await storeOutcome(transaction, row, { ...outcome, ...texts });
    if (isStored) {
      await deleteContents(transaction, row.id);
      await store();
    }
    if (isStored) await recordEnded(transaction, [{ ...row, ...outcome }]);
    return isStored;
  });
}

/** Inserts calls that have ended, and their usage, all or nothing. */
export async function insertEndedCalls(db: Db, rows: readonly CallRow[]): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const separated = await Promise.all(
      rows.map((row) => separateContents(transaction, { id: row.id, tenantId: row.tenant_id }, row)),
    );
    await insertCalls(
      transaction,
      rows.map((row, index) => ({ ...row, ...separated[index]?.texts })),
    );
    for (const { store } of separated) await store();
    await recordEnded(transaction, rows);
  });
}

/** Replaces the stored input of a call that has ended without running. */
export async function redactStoredInput(
  db: Db,
  id: string,
  toStored: (input: string | null) => string | null,
): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const found = await transaction.selectFrom("calls").selectAll().where("id", "=", id).executeTakeFirst();
    if (found === undefined) return;
    const { input } = await withContents(transaction, found);
    const key = { id, tenantId: found.tenant_id };
    const { texts, store } = await separateContents(transaction, key, {
      ...{ input: toStored(input), output: null, timeline: null },
    });
    await deleteContents(transaction, id);
    await transaction.updateTable("calls").set(texts).where("id", "=", id).execute();
    await store();
  });
}

/**
 * Deletes the finished calls of a tenant that are older than a time, up to `limit` of them. Ids sort by time.
 * @returns how many were deleted
 */
export async function deleteOldCalls(
  db: Db,
  tenantId: string,
  { before, limit }: { readonly before: number; readonly limit: number },
): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("calls")
    .where("id", "in", (query) =>
      query
        .selectFrom("calls")
        .select("id")
        .where("tenant_id", "=", tenantId)
        .where("ended_at", "<", before)
        .where("state", "in", ["succeeded", "failed", "cancelled"])
        .orderBy("id")
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

export interface LeaseOptions {
  readonly owner: string;
  /** End of the lease in ms since 1970. */
  readonly until: number;
}

/**
 * Claims queued calls that are due, the oldest first. The claimed rows have `effects: "none"` until {@link markStarted}: if the process dies
 * before, nothing of the tool has run.
 */
export async function claimCalls(
  { db, kind }: { readonly db: Db; readonly kind: DatabaseKind },
  limit: number,
  { owner, until }: LeaseOptions,
): Promise<readonly CallRow[]> {
  return await db
    .updateTable("calls")
    .set((column) => ({
      state: "running",
      lease_owner: owner,
      lease_until: until,
      fence: column("fence", "+", 1),
      attempts: column("attempts", "+", 1),
    }))
    .where("id", "in", (query) => {
      const due = query
        .selectFrom("calls")
        .select("id")
        .where("state", "=", "queued")
        .where("run_at", "<=", Date.now())
        .orderBy("run_at")
        .orderBy("id")
        .limit(limit);
      return kind === "postgres" ? due.forUpdate().skipLocked() : due;
    })
    .returningAll()
    .execute();
}

/** Records that a claimed call is about to run. Returns false if its claim has been lost; the call must not run then. */
export async function markStarted(db: Db, { id, fence }: Claim, startedAt: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set({ effects: "possible", started_at: startedAt })
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "running")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Extends the leases of an owner. Returns the ids of its calls that someone wants to cancel. */
export async function renewLeases(db: Db, { owner, until }: LeaseOptions): Promise<readonly string[]> {
  const rows = await db
    .updateTable("calls")
    .set({ lease_until: until })
    .where("state", "=", "running")
    .where("lease_owner", "=", owner)
    .returning(["id", "cancel_requested"])
    .execute();
  return rows.filter(({ cancel_requested }) => cancel_requested === 1).map(({ id }) => id);
}

/** Returns claimed calls whose lease has expired: their process is gone. */
export async function findExpired(db: Db, now: number): Promise<readonly CallRow[]> {
  return await db
    .selectFrom("calls")
    .selectAll()
    .where("state", "=", "running")
    .where("lease_until", "<", now)
    .limit(500)
    .execute();
}

/** Puts a call whose process is gone back into the queue. Returns false if another process was faster. */
export async function requeue(db: Db, { id, fence }: Claim, runAt: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set((column) => ({
      ...{ state: "queued", effects: "none", run_at: runAt, lease_owner: null, lease_until: null, started_at: null },
      fence: column("fence", "+", 1),
    }))
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "running")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Cancels a queued call, or requests that of the process that runs it. Returns what the call was. */
export async function requestCancel(db: Db, tenantId: string, id: string): Promise<CallState | undefined> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set({
      ...{ state: "cancelled", ended_at: Date.now(), cancel_requested: 1 },
      error: sql`${JSON.stringify({ code: "CANCELLED", message: "The call was cancelled before it ran", recoverable: true })}`,
    })
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .where("state", "=", "queued")
    .executeTakeFirst();
  if (numUpdatedRows > 0n) return "queued";
  const row = await db
    .updateTable("calls")
    .set({ cancel_requested: 1 })
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .where("state", "=", "running")
    .returning("id")
    .executeTakeFirst();
  if (row !== undefined) return "running";
  return (await findCall(db, tenantId, id))?.state;
}
