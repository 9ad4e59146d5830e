// Stores log lines and the unfinished timelines of running calls for a short time, for clients that watch a call at another replica than the
// one that runs it.
import { sql } from "kysely";
import * as z from "zod";
import type { LogEntry, OpenTimeline, TimelineSpan } from "../../../host/index.ts";
import { databaseNow } from "../../database/database-time.ts";
import type { Db } from "../../database/open-database.ts";
import { parseColumn } from "../json.ts";

/** Longest text of a line in UTF-16 code units. */
const MAX_LINE_LENGTH = 131_072;
/** Position of the row that holds the unfinished timeline. Log lines have positions from 0. */
const SNAPSHOT_POSITION = -1;
/** Longest text of an unfinished timeline in UTF-16 code units: it is written once a second. */
const MAX_SNAPSHOT_LENGTH = 524_288;
/** Lines that one read returns. */
export const LINES_PER_READ = 100;

const EntrySchema: z.ZodType<LogEntry> = z.strictObject({
  level: z.enum(["debug", "info", "warn", "error"]),
  time: z.number(),
  message: z.string(),
  data: z.json().optional(),
  place: z.string().optional(),
  callId: z.string().optional(),
}) as never;

export interface LiveLine {
  readonly index: number;
  readonly entry: LogEntry;
}

/** A running call. */
export interface LiveKey {
  readonly tenantId: string;
  readonly callId: string;
}

/** An attempt of a running call. */
export interface LiveAttempt extends LiveKey {
  /** Id of the attempt. */
  readonly attempt: string;
}

/**
 * Adds log lines of one attempt of a call. A queued call can have several attempts: the lines of other attempts are deleted, and so are lines
 * before `keepFrom`.
 */
export async function storeLines(
  db: Db,
  { tenantId, callId, attempt }: LiveAttempt,
  lines: readonly { readonly index: number; readonly text: string }[],
  keepFrom: number,
): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await transaction
      .deleteFrom("live_logs")
      .where("call_id", "=", callId)
      .where((of) =>
        of.or([
          of("attempt", "!=", attempt),
          of.and([of("position", "<", keepFrom), of("position", "!=", SNAPSHOT_POSITION)]),
        ]),
      )
      .execute();
    const common = { tenant_id: tenantId, call_id: callId, attempt, created_at: databaseNow };
    await transaction
      .insertInto("live_logs")
      .values(lines.map(({ index, text }) => ({ ...common, position: index, text })))
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  });
}

/** Returns lines of a call in order, from position `from`. @throws {ToolError} INTERNAL for a row that holds no line */
export async function readLines(db: Db, { tenantId, callId }: LiveKey, from: number): Promise<readonly LiveLine[]> {
  const rows = await db
    .selectFrom("live_logs")
    .select(["position", sql<string>`left(text, ${MAX_LINE_LENGTH + 1})`.as("text")])
    .where("call_id", "=", callId)
    .where("tenant_id", "=", tenantId)
    .where("position", ">=", from)
    .orderBy("position")
    .limit(LINES_PER_READ)
    .execute();
  return rows.map(({ position, text }) => ({ index: position, entry: parseColumn(EntrySchema, text, "log line") }));
}

const SnapshotSchema = z.strictObject({
  spans: z.array(z.looseObject({ kind: z.string() })),
  calls: z.array(z.looseObject({ callId: z.string() })),
});
/** The unfinished timeline of a running call, as the replica that runs it has written it. */
export type LiveSnapshot = z.infer<typeof SnapshotSchema>;

/** Yields a timeline, and then shorter ones: without the timelines of nested calls, with fewer of the newest spans, and with the stages alone. */
function* shorten(snapshot: OpenTimeline): Generator<OpenTimeline> {
  yield snapshot;
  const calls = snapshot.calls.map(({ timeline: _, calls: __, ...call }) => call);
  yield { spans: snapshot.spans, calls };
  const isUse = ({ kind }: TimelineSpan): boolean => kind === "capability" || kind === "tool";
  const uses = snapshot.spans.filter(isUse);
  for (let max = Math.floor(uses.length / 2); ; max = Math.floor(max / 2)) {
    const kept = new Set(uses.slice(uses.length - max));
    const ids = new Set([...kept].map(({ callId }) => callId));
    yield {
      spans: snapshot.spans.filter((span) => !isUse(span) || kept.has(span)),
      calls: calls.filter(({ callId }) => ids.has(callId)),
    };
    if (max === 0) return;
  }
}

/** Returns the longest of these that is not too long. */
function toSnapshotText(snapshot: OpenTimeline): string {
  for (const shorter of shorten(snapshot)) {
    const text = JSON.stringify(shorter);
    if (text.length <= MAX_SNAPSHOT_LENGTH) return text;
  }
  return JSON.stringify({ spans: [], calls: [] });
}

/** Replaces the unfinished timeline of an attempt of a call. */
export async function storeSnapshot(
  db: Db,
  { tenantId, callId, attempt }: LiveAttempt,
  snapshot: OpenTimeline,
): Promise<void> {
  const text = toSnapshotText(snapshot);
  await db
    .insertInto("live_logs")
    .values({
      tenant_id: tenantId,
      call_id: callId,
      attempt,
      created_at: databaseNow,
      position: SNAPSHOT_POSITION,
      text,
    })
    .onConflict((conflict) =>
      conflict.columns(["call_id", "attempt", "position"]).doUpdateSet({ text, created_at: databaseNow }),
    )
    .execute();
}

/** Returns the unfinished timeline of a call, if it was written lately. @param maxAgeMs maximum age in ms */
export async function readSnapshot(
  db: Db,
  { tenantId, callId }: LiveKey,
  maxAgeMs: number,
): Promise<LiveSnapshot | undefined> {
  const row = await db
    .selectFrom("live_logs")
    .select(sql<string>`left(text, ${MAX_SNAPSHOT_LENGTH + 1})`.as("text"))
    .where("call_id", "=", callId)
    .where("tenant_id", "=", tenantId)
    .where("position", "=", SNAPSHOT_POSITION)
    .where("created_at", ">", sql<number>`${databaseNow} - ${maxAgeMs}::bigint`)
    .orderBy("created_at", "desc")
    .limit(1)
    .executeTakeFirst();
  return row && parseColumn(SnapshotSchema, row.text, "timeline");
}

/** Deletes lines that were written more than `olderThanMs` ago. */
export async function deleteOldLines(db: Db, olderThanMs: number): Promise<void> {
  await db
    .deleteFrom("live_logs")
    .where("created_at", "<", sql<number>`${databaseNow} - ${olderThanMs}::bigint`)
    .execute();
}
