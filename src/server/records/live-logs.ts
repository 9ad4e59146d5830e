// Stores log lines of running calls for a short time, for those who watch a call at another replica than the one that runs it.
import { sql } from "kysely";
import * as z from "zod";
import type { LogEntry } from "../../host/index.ts";
import { databaseNow } from "../database/database-time.ts";
import type { Db } from "../database/open-database.ts";
import { readJson } from "./json.ts";

/** Longest text of a line in UTF-16 code units. */
const MAX_LINE_LENGTH = 131_072;
/** Lines that one read returns. */
export const PAGE = 100;

const EntrySchema: z.ZodType<LogEntry> = z.strictObject({
  level: z.enum(["debug", "info", "warn", "error"]),
  ...{ time: z.number(), message: z.string() },
  data: z.json().optional(),
  ...{ place: z.string().optional(), callId: z.string().optional() },
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

/** Adds lines of an attempt of a call: one of the queue can begin several times. Lines of attempts before it, and those below `keepFrom`, are removed. */
export async function storeLines(
  db: Db,
  { tenantId, callId }: LiveKey,
  attempt: string,
  lines: readonly { readonly index: number; readonly text: string }[],
  keepFrom: number,
): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await transaction
      .deleteFrom("live_logs")
      .where("call_id", "=", callId)
      .where((of) => of.or([of("attempt", "!=", attempt), of("position", "<", keepFrom)]))
      .execute();
    const common = { tenant_id: tenantId, call_id: callId, attempt, created_at: databaseNow };
    await transaction
      .insertInto("live_logs")
      .values(lines.map(({ index, text }) => ({ ...common, position: index, text })))
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  });
}

/** Returns lines of a call in order, from a number on. @throws {ToolError} INTERNAL for a row that holds no line */
export async function readLines(db: Db, { tenantId, callId }: LiveKey, from: number): Promise<readonly LiveLine[]> {
  const rows = await db
    .selectFrom("live_logs")
    .select(["position", sql<string>`left(text, ${MAX_LINE_LENGTH + 1})`.as("text")])
    .where("call_id", "=", callId)
    .where("tenant_id", "=", tenantId)
    .where("position", ">=", from)
    .orderBy("position")
    .limit(PAGE)
    .execute();
  return rows.map(({ position, text }) => ({ index: position, entry: readJson(EntrySchema, text, "log line") }));
}

/** Removes lines that were written longer than this ago. @param ms time in ms */
export async function deleteOldLines(db: Db, ms: number): Promise<void> {
  await db.deleteFrom("live_logs").where("created_at", "<", sql<number>`${databaseNow} - ${ms}::bigint`).execute();
}
