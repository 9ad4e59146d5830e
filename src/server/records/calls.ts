// Stores calls. The row of an asynchronous call is also its place in the queue: a process claims it with a lease and a number (fence), and a
// result counts only with the number of the latest claim.
import { type SelectQueryBuilder, sql } from "kysely";
import type { JsonValue } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import type { CallsTable, DatabaseSchema, StoredCallState } from "../database/schema.ts";
import type { CallClaim } from "./call-claims.ts";
import {
  type CallExtras,
  type ContentColumn,
  deleteContents,
  OMITTED,
  RECORDING_BIT,
  separateColumns,
  separateContents,
  withContents,
} from "./call-contents.ts";
import { Slices } from "./slices.ts";
import { checkStoredBytes, HistoryRoom } from "./stored-bytes.ts";
import { addUsage } from "./usage.ts";
import { emitEvents } from "./webhooks.ts";

export type CallRow = CallsTable;

/** A call that has ended, with what is stored of it apart from its row. */
export interface EndedCall extends CallExtras {
  readonly row: CallRow;
}

/** A row with the content parts of its output, which lists leave out. */
export type WholeCall = CallRow & { readonly parts?: string | null };

/** A call as the API shows it. */
export interface CallRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly tool: string;
  readonly version: number | null;
  readonly alias: string;
  readonly mode: CallsTable["mode"];
  readonly state: StoredCallState;
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
  /** The call that made this one; null for a call of a client. */
  readonly parentId: string | null;
  /** The call of a client that this one belongs to; null for that call itself. */
  readonly rootId: string | null;
  readonly approvalId: string | null;
  /** Whether the call can be replayed. */
  readonly isRecorded: boolean;
  /**
   * Which of input and output are left out here, because they are large, or because the tenant has used up its quota of stored bytes. A single
   * call is shown with large ones, up to 4 MiB each.
   */
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
  ...{ attempts: row.attempts, parentId: row.parent_id, rootId: row.root_id, approvalId: row.approval_id },
  isRecorded: (row.content & RECORDING_BIT) !== 0,
  omitted: separateColumns(row).filter(
    (column) => column !== "timeline" && row[column] === null,
  ) as CallRecord["omitted"],
});

interface StoredTimeline {
  readonly spans: JsonValue;
  /** Nested calls with their timelines, in records of earlier versions of the server. */
  readonly calls?: readonly StoredNestedCall[];
}
interface StoredNestedCall {
  readonly callId: string;
  readonly timeline?: JsonValue;
  readonly calls?: readonly StoredNestedCall[];
}

/**
 * Returns the timeline of a call, with those of its nested calls, as the API shows it.
 * @param nested the rows of the calls below it, with their timelines
 */
export function timelineOf(row: CallRow, nested: readonly CallRow[]): object {
  const { spans, calls } = (parse(row.timeline) as StoredTimeline | null) ?? { spans: [] };
  const byId = new Map(nested.map((one) => [one.id, (parse(one.timeline) as StoredTimeline | null)?.spans]));
  const attach = (call: StoredNestedCall): object => {
    const timeline = byId.get(call.callId) ?? call.timeline;
    return {
      ...call,
      ...(timeline === undefined ? {} : { timeline }),
      ...(call.calls === undefined ? {} : { calls: call.calls.map(attach) }),
    };
  };
  const own = calls ?? (parse(row.calls) as readonly StoredNestedCall[] | null) ?? [];
  return { spans, calls: own.map(attach) };
}

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

/**
 * Inserts a call unless one with its idempotency key exists. Returns that one. Part of a transaction, if `db` is one.
 * @throws {ToolError} QUOTA_EXCEEDED if the tenant may not store its input
 */
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
    const bytes = Buffer.byteLength(row.input ?? "");
    await checkStoredBytes(db, row.tenant_id, { what: "The input of the call", bytes, isStored: true });
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

export async function findCallsById(db: Db, ids: readonly string[]): Promise<readonly CallRow[]> {
  return await db.selectFrom("calls").selectAll().where("id", "in", ids).execute();
}

export interface CallFilter {
  readonly tool?: string | undefined;
  readonly version?: number | undefined;
  readonly state?: StoredCallState | undefined;
  /** Least time in ms from acceptance to the result. */
  readonly minMs?: number | undefined;
  /** Text that the input, output, error or logs contain. Large inputs and outputs, which have a table of their own, are not searched. */
  readonly text?: string | undefined;
  /** Whether calls that other calls made are listed too. @default false */
  readonly nested?: boolean | undefined;
  /** The call that made the listed ones. */
  readonly parent?: string | undefined;
  /** Id of the last call of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Returns the id of the outermost call: a nested call has the id of its caller and a number. */
export const rootOf = (id: string): string => id.split(".", 1)[0] as string;

/** Returns the calls below a call of a client, at any depth, without their contents. */
export async function listNested(db: Db, tenantId: string, rootId: string, limit: number): Promise<readonly CallRow[]> {
  return await db
    .selectFrom("calls")
    .selectAll()
    .where("root_id", "=", rootId)
    .where("tenant_id", "=", tenantId)
    .orderBy("id")
    .limit(limit)
    .execute();
}

/** Calls that one page of a filtered list looks at: a filter that matches nothing must not read the whole table. */
const MAX_SEARCHED = 20_000;

export interface CallPage {
  readonly rows: readonly CallRow[];
  /** Id from which the next page continues; null on the last one. A page of a filtered list can have few calls, and still not be the last. */
  readonly next: string | null;
}

/** Returns whether a list is a search, which may have to read many calls for few results. */
export const isSearch = ({ tool, version, state, minMs, text }: CallFilter): boolean =>
  [tool, version, state, minMs, text].some((value) => value !== undefined);

/** Lists the newest calls first. Ids sort by time. @param tenantId default: all tenants */
export async function listCalls(db: Db, tenantId: string | undefined, filter: CallFilter): Promise<CallPage> {
  const { nested = false, parent, before, limit } = filter;
  let query = db.selectFrom("calls").selectAll().orderBy("id", "desc");
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  // The index by root begins with the id of the outermost call, which is the beginning of the id of each call below it.
  if (parent !== undefined) query = query.where("root_id", "=", rootOf(parent)).where("parent_id", "=", parent);
  else if (!nested) query = query.where("parent_id", "is", null);
  if (isSearch(filter)) return await searchCalls(query, filter);
  if (before !== undefined) query = query.where("id", "<", before);
  const found = await query.limit(limit + 1).execute();
  const rows = found.slice(0, limit);
  return { rows, next: found.length > limit ? (rows.at(-1)?.id ?? null) : null };
}

type CallQuery = SelectQueryBuilder<DatabaseSchema, "calls", CallRow>;

/** Reads a page of a filtered list in slices, so that the event loop is free between them. */
async function searchCalls(all: CallQuery, { before, limit, ...filter }: CallFilter): Promise<CallPage> {
  const found: CallRow[] = [];
  const slices = new Slices();
  let cursor = before;
  let searched = 0;
  for (;;) {
    const query = cursor === undefined ? all : all.where("id", "<", cursor);
    const size = Math.min(slices.size, MAX_SEARCHED - searched);
    // The oldest call of this slice; undefined if it reaches the end of the list.
    const oldest = await query
      .clearSelect()
      .select("id")
      .offset(size - 1)
      .limit(1)
      .executeTakeFirst();
    const slice = oldest === undefined ? query : query.where("id", ">=", oldest.id);
    found.push(
      ...(await matching(slice, filter)
        .limit(limit + 1 - found.length)
        .execute()),
    );
    if (found.length > limit) {
      const rows = found.slice(0, limit);
      return { rows, next: rows.at(-1)?.id ?? null };
    }
    searched += size;
    cursor = oldest?.id;
    if (cursor === undefined || searched >= MAX_SEARCHED) return { rows: found, next: cursor ?? null };
    await slices.next();
  }
}

function matching(
  all: CallQuery,
  { tool, version, state, minMs, text }: Omit<CallFilter, "before" | "limit">,
): CallQuery {
  let query = all;
  if (tool !== undefined) query = query.where("tool_name", "=", tool);
  if (version !== undefined) query = query.where("tool_version", "=", version);
  if (state !== undefined) query = query.where("state", "=", state);
  if (minMs !== undefined) query = query.where(sql<boolean>`ended_at - created_at >= ${minMs}`);
  if (text === undefined) return query;
  // `!` escapes, because a backslash means something else in each database.
  const pattern = `%${text.toLowerCase().replaceAll(/[!%_]/g, "!$&")}%`;
  const matches = ["input", "output", "error", "logs"].map(
    (column) => sql<boolean>`lower(${sql.ref(column)}) like ${pattern} escape '!'`,
  );
  return query.where((of) => of.or(matches));
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
          ...{ id: row.id, tool: row.tool_name, version: row.tool_version, alias: row.alias, mode: row.mode },
          ...{ state: row.state, effects: row.effects, error: parse(row.error), caller: row.key_id },
          ...{ createdAt: row.created_at, endedAt: row.ended_at },
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

/** The states of a call that has a row and has not begun to run. */
export const WAITING_STATES: readonly StoredCallState[] = ["queued", "waiting_for_approval"];

/** Returns the outcome of a call that ends without having run. */
export const notRunOutcome = (
  row: CallRow,
  state: "failed" | "cancelled",
  error: object,
  input: string | null,
): CallOutcome => ({
  ...{ state, effects: "none", tool_version: row.tool_version, input, output: null, error: JSON.stringify(error) },
  ...{ logs: null, usage: null, calls: null, timeline: null, ended_at: Date.now() },
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
    const found = await findCall(transaction, tenantId, id);
    if (found === undefined) return undefined;
    if (WAITING_STATES.includes(found.state)) {
      const input = toStored((await withContents(transaction, found)).input);
      const error = { code: "CANCELLED", message: "The call was cancelled before it ran", recoverable: true };
      const outcome = notRunOutcome(found, "cancelled", error, input);
      if (await endCall(transaction, found, outcome, found.state)) {
        await transaction
          .updateTable("approvals")
          .set({ state: "cancelled", decided_at: Date.now() })
          .where("call_id", "=", id)
          .where("state", "=", "pending")
          .execute();
        return found.state;
      }
    }
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

/** Returns how many calls that have not ended run a version, will run it, or wait for an approval to run it. */
export async function countOpenCalls(db: Db, tenantId: string, toolName: string, version: number): Promise<number> {
  const count = async (table: "calls" | "approvals", states: readonly string[]): Promise<number> => {
    const { open } = await db
      .selectFrom(table)
      .select(({ fn }) => fn.countAll().as("open"))
      .where("state", "in", states as never)
      .where("tenant_id", "=", tenantId)
      .where("tool_name", "=", toolName)
      .where("tool_version", "=", version)
      .executeTakeFirstOrThrow();
    return Number(open);
  };
  return (await count("calls", ["queued", "running"])) + (await count("approvals", ["pending"]));
}
