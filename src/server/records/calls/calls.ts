// Stores calls. The row of an asynchronous call is also its place in the queue: a process claims it with a lease and a number (fence), and a
// result counts only with the number of the latest claim.
import type { JsonValue, TimelineSpan } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { CallsTable, StoredCallState } from "../../database/tables/call-tables.ts";
import { checkStoredBytes } from "../tenants/stored-bytes.ts";
import { type ContentColumn, RECORDING_BIT, separateColumns, separateContents } from "./call-contents.ts";

export type CallRow = CallsTable;

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
  /** `none`: no effect of the tool can have left the sandbox, so that a retry is safe. `complete`: the tool has returned. */
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

/** Parses a JSON column that this server alone writes. */
export const parseColumn = (text: string | null): JsonValue => (text === null ? null : (JSON.parse(text) as JsonValue));

const toRecordFields = (row: CallRow): Omit<CallRecord, "input" | "output"> => ({
  id: row.id,
  tenantId: row.tenant_id,
  tool: row.tool_name,
  version: row.tool_version,
  alias: row.alias,
  mode: row.mode,
  state: row.state,
  effects: row.effects,
  keyId: row.key_id,
  sessionId: row.session_id,
  error: parseColumn(row.error),
  usage: parseColumn(row.usage),
  calls: parseColumn(row.calls),
  createdAt: row.created_at,
  startedAt: row.started_at,
  endedAt: row.ended_at,
  attempts: row.attempts,
  parentId: row.parent_id,
  rootId: row.root_id,
  approvalId: row.approval_id,
  isRecorded: (row.content & RECORDING_BIT) !== 0,
  omitted: separateColumns(row).filter(
    (column) => column !== "timeline" && row[column] === null,
  ) as CallRecord["omitted"],
});

export const toCallRecord = (row: CallRow): CallRecord => ({
  ...toRecordFields(row),
  input: parseColumn(row.input),
  output: parseColumn(row.output),
});

/**
 * Returns a call as JSON text. Its input and output are JSON text already: to parse and serialize an output of 8 MiB again takes 0.5 s.
 * @param more further members
 */
export function writeCallRecord(row: CallRow, more: object): string {
  const text = JSON.stringify({ ...toRecordFields(row), ...more });
  return `${text.slice(0, -1)},"input":${row.input ?? "null"},"output":${row.output ?? "null"}}`;
}

interface StoredTimeline {
  readonly spans: readonly object[];
  /** Nested calls with their timelines, in records of earlier versions of the server. */
  readonly calls?: readonly StoredNestedCall[];
}
interface StoredNestedCall {
  readonly callId: string;
  readonly timeline?: JsonValue;
  readonly calls?: readonly StoredNestedCall[];
}

/** Returns the ids of the calls below a call that has ended, at any depth, each before those that it made. */
export function nestedIdsOf(row: Pick<CallRow, "calls">): readonly string[] {
  const idsOf = (calls: readonly StoredNestedCall[]): readonly string[] =>
    calls.flatMap(({ callId, calls: below = [] }) => [callId, ...idsOf(below)]);
  return idsOf((parseColumn(row.calls) as readonly StoredNestedCall[] | null) ?? []);
}

/**
 * Returns the timeline of a call, with those of its nested calls, as the API shows it.
 * @param nested the timelines of the calls below it
 */
export function timelineOf(row: CallRow, nested: readonly Pick<CallRow, "id" | "timeline">[]): object {
  const { spans, calls } = (parseColumn(row.timeline) as StoredTimeline | null) ?? { spans: [] };
  const byId = new Map(nested.map((one) => [one.id, (parseColumn(one.timeline) as StoredTimeline | null)?.spans]));
  const attach = (call: StoredNestedCall): object => {
    const timeline = byId.get(call.callId) ?? call.timeline;
    return {
      ...call,
      ...(timeline === undefined ? {} : { timeline }),
      ...(call.calls === undefined ? {} : { calls: call.calls.map(attach) }),
    };
  };
  const own = calls ?? (parseColumn(row.calls) as readonly StoredNestedCall[] | null) ?? [];
  return { spans: afterQueue(row, spans), calls: own.map(attach), isOver: true };
}

/** Returns the unfinished timeline of a call. @param row undefined for a call that has none before it ends */
export const toTimelineSoFar = (
  row: CallRow | undefined,
  soFar: { readonly spans: readonly object[]; readonly calls: readonly object[] } | undefined,
  now: number,
): object => ({
  spans: row === undefined ? (soFar?.spans ?? []) : afterQueue(row, soFar?.spans ?? [], now),
  calls: soFar?.calls ?? [],
  isOver: false,
});

/**
 * Puts the time before a call began to run in front of its timeline, which starts when the call has left the queue. A durable run is suspended
 * between its attempts, and its timeline is that of the last one.
 * @param now set for a call that has not ended: one that has not begun waits until now
 */
function afterQueue(
  { mode, created_at: createdAt, started_at: startedAt, approval_id: approvalId }: CallRow,
  spans: readonly object[],
  now?: number,
): readonly object[] {
  const waitMs = (startedAt ?? now ?? createdAt) - createdAt;
  const isNotStored = spans.length === 0 && now === undefined;
  if (mode === "run" || waitMs <= 0 || isNotStored) return spans;
  const name = approvalId === null ? "queued" : "waiting_for_approval";
  const isOpen = startedAt === null && now !== undefined;
  const wait = { kind: "queue", name, startMs: 0, durationMs: waitMs, code: "ok", ...(isOpen ? { isOpen } : {}) };
  return [wait, ...spans.map((span) => ({ ...span, startMs: (span as TimelineSpan).startMs + waitMs }))];
}

export const logsOf = (row: CallRow): JsonValue => parseColumn(row.logs) ?? [];

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

/** Maximum number of times that a call is inserted while the calls that have its idempotency key end and release it. */
const MAX_INSERTS = 10;

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
  for (let inserts = 0; inserts < MAX_INSERTS; inserts += 1) {
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
    const known = await findByKey(db, row);
    // With Postgres, that call may have released its key between the two statements.
    if (known !== undefined) return known;
  }
  throw new Error(
    "The idempotency key of a call was used and released again by other calls each time that the call was inserted",
  );
}

/** Returns the call of a tenant that has an idempotency key. */
export async function findByKey(
  db: Db,
  { tenant_id, idempotency_key }: Pick<CallRow, "tenant_id" | "idempotency_key">,
): Promise<CallRow | undefined> {
  return await db
    .selectFrom("calls")
    .selectAll()
    .where("tenant_id", "=", tenant_id)
    .where("idempotency_key", "=", idempotency_key)
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

/** Returns how many calls that have not ended run a version, will run it, or wait for an approval to run it. */
export async function countOpenCalls(db: Db, tenantId: string, toolName: string, version: number): Promise<number> {
  const ofVersion = { tenant_id: tenantId, tool_name: toolName, tool_version: version };
  const calls = await db
    .selectFrom("calls")
    .select(({ fn }) => fn.countAll().as("open"))
    .where("state", "in", ["queued", "running"])
    .where(({ and }) => and(ofVersion))
    .executeTakeFirstOrThrow();
  const approvals = await db
    .selectFrom("approvals")
    .select(({ fn }) => fn.countAll().as("open"))
    .where("state", "=", "pending")
    .where(({ and }) => and(ofVersion))
    .executeTakeFirstOrThrow();
  return Number(calls.open) + Number(approvals.open);
}
