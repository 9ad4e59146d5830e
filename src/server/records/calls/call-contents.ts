// Keeps large inputs, outputs and timelines of calls in a table of their own, so that lists and the queue do not read them.
import type { Db } from "../../database/open-database.ts";
import { IS_RECORDED_CALL } from "../../database/partial-indexes.ts";
import type { CallsTable } from "../../database/tables/call-tables.ts";

/** Longest text in UTF-16 code units that stays in the row of the call. */
const INLINE_LENGTH = 16_384;
/** Longest text that is kept at all. A longer one is left out of the record. */
export const MAX_CONTENT_LENGTH: number = 4 * 1024 * 1024;
/** The same for a timeline: enough for 100,000 spans. */
export const MAX_TIMELINE_LENGTH: number = 16 * 1024 * 1024;

/** The bit of `calls.content` that says that the other table has a recording. */
export const RECORDING_BIT = 8;

/** The bit that says that the other table has content parts. */
const PARTS_BIT = 16;

/** What the other table alone has of a call, as JSON text. */
export interface CallExtras {
  readonly recording?: string | undefined;
  /** Content parts of the output, such as images. */
  readonly parts?: string | undefined;
}

/** Returns the bits of what the other table alone has. */
export const bitsOf = ({ recording, parts }: CallExtras): number =>
  (recording === undefined ? 0 : RECORDING_BIT) | (parts === undefined ? 0 : PARTS_BIT);

/** The bit of each column in `calls.content`. */
const BITS = { input: 1, output: 2, timeline: 4 } as const;
const COLUMNS = ["input", "output", "timeline"] as const;
export type ContentColumn = (typeof COLUMNS)[number];

type WithContent = Pick<CallsTable, "id" | "tenant_id" | "content" | ContentColumn>;
type Texts = { input: string | null; output: string | null; timeline: string | null; content: number };

/** Stands for a text that is left out, although it is not too long. */
export const OMITTED: unique symbol = Symbol("omitted");

/** Returns which columns of a row are in the other table. */
export const separateColumns = ({ content }: Pick<CallsTable, "content">): readonly ContentColumn[] =>
  COLUMNS.filter((column) => (content & BITS[column]) !== 0);

/**
 * Moves large texts of a row to the other table, and returns the columns that remain. Replaces what the other table has of the call.
 * @param db a transaction; the call must be stored already, or within it
 * @param keepsAll whether a text is kept although it is too long, because the call needs it to run
 */
export async function separateContents(
  db: Db,
  { id, tenantId }: { readonly id: string; readonly tenantId: string },
  given: { readonly [Column in ContentColumn]: string | null | typeof OMITTED },
  { keepsAll = false, recording, parts }: CallExtras & { readonly keepsAll?: boolean } = {},
): Promise<{ readonly texts: Texts; readonly store: () => Promise<void> }> {
  const textOf = (column: ContentColumn): string | null => {
    const text = given[column];
    return text === OMITTED ? null : text;
  };
  const kept: Texts = {
    input: textOf("input"),
    output: textOf("output"),
    timeline: textOf("timeline"),
    content: bitsOf({ recording, parts }),
  };
  const moved: { readonly kind: ContentColumn | keyof CallExtras; readonly text: string }[] = [];
  if (recording !== undefined) moved.push({ kind: "recording", text: recording });
  if (parts !== undefined) moved.push({ kind: "parts", text: parts });
  for (const kind of COLUMNS) {
    const text = kept[kind];
    if (given[kind] === OMITTED) kept.content |= BITS[kind];
    if (text === null || text.length <= INLINE_LENGTH) continue;
    kept[kind] = null;
    kept.content |= BITS[kind];
    const max = kind === "timeline" ? MAX_TIMELINE_LENGTH : MAX_CONTENT_LENGTH;
    if (keepsAll || text.length <= max) moved.push({ kind, text });
  }
  const store = async (): Promise<void> => {
    for (const { kind, text } of moved) {
      await db.insertInto("call_contents").values({ call_id: id, tenant_id: tenantId, kind, text }).execute();
    }
  };
  return { texts: kept, store };
}

/** Removes what the other table has of a call. */
export async function deleteContents(db: Db, id: string): Promise<void> {
  await db.deleteFrom("call_contents").where("call_id", "=", id).execute();
}

/** Returns a row with the texts of the other table. A text that was too long stays null. */
export async function withContents<Row extends WithContent>(db: Db, row: Row): Promise<Row> {
  if (separateColumns(row).length === 0) return row;
  const found = await db
    .selectFrom("call_contents")
    .select(["kind", "text"])
    .where("call_id", "=", row.id)
    .where("kind", "in", COLUMNS)
    .execute();
  return { ...row, ...Object.fromEntries(found.map(({ kind, text }) => [kind, text])) };
}

/** Returns the content parts of a call's output as JSON text. */
export async function findParts(db: Db, { id, content }: Pick<WithContent, "id" | "content">): Promise<string | null> {
  if ((content & PARTS_BIT) === 0) return null;
  const query = db.selectFrom("call_contents").select("text").where("call_id", "=", id).where("kind", "=", "parts");
  return (await query.executeTakeFirst())?.text ?? null;
}

/** Returns the recording of a call as JSON text. */
export async function findRecording(db: Db, tenantId: string, callId: string): Promise<string | undefined> {
  const found = await db
    .selectFrom("call_contents")
    .select("text")
    .where("call_id", "=", callId)
    .where("tenant_id", "=", tenantId)
    .where("kind", "=", "recording")
    .executeTakeFirst();
  return found?.text;
}

export interface RecordedCallFilter {
  readonly tenantId: string;
  readonly toolName: string;
  /** Earliest time of the call in ms since 1970. */
  readonly since: number;
  readonly limit: number;
}

/** Returns the ids of the newest recorded calls of a tool. Ids sort by time. */
export async function listRecorded(
  db: Db,
  { tenantId, toolName, since, limit }: RecordedCallFilter,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom("calls")
    .select("id")
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("created_at", ">=", since)
    .where(IS_RECORDED_CALL)
    .orderBy("id", "desc")
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}
