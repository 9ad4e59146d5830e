// Keeps large inputs, outputs and timelines of calls in a table of their own, so that lists and the queue do not read them.
import type { Db } from "../database/open-database.ts";
import type { CallsTable } from "../database/schema.ts";

/** Longest text in UTF-16 code units that stays in the row of the call. */
const INLINE_LENGTH = 16_384;
/** Longest text that is kept at all. A longer one is left out of the record. */
export const MAX_CONTENT_LENGTH: number = 4 * 1024 * 1024;
/** The same for a timeline: enough for 100,000 spans. */
const MAX_TIMELINE_LENGTH = 16 * 1024 * 1024;

/** The bit of each column in `calls.content`. */
const BITS = { input: 1, output: 2, timeline: 4 } as const;
const COLUMNS = ["input", "output", "timeline"] as const;
export type ContentColumn = (typeof COLUMNS)[number];

type WithContent = Pick<CallsTable, "id" | "tenant_id" | "content" | ContentColumn>;
type Texts = { input: string | null; output: string | null; timeline: string | null; content: number };

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
  texts: Omit<Texts, "content">,
  { keepsAll = false }: { readonly keepsAll?: boolean } = {},
): Promise<{ readonly texts: Texts; readonly store: () => Promise<void> }> {
  const kept: Texts = { ...texts, content: 0 };
  const moved: { readonly kind: ContentColumn; readonly text: string }[] = [];
  for (const kind of COLUMNS) {
    const text = texts[kind];
    if (text === null || text.length <= INLINE_LENGTH) continue;
    kept[kind] = null;
    kept.content |= BITS[kind];
    const most = kind === "timeline" ? MAX_TIMELINE_LENGTH : MAX_CONTENT_LENGTH;
    if (keepsAll || text.length <= most) moved.push({ kind, text });
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
  if (row.content === 0) return row;
  const found = await db.selectFrom("call_contents").select(["kind", "text"]).where("call_id", "=", row.id).execute();
  return { ...row, ...Object.fromEntries(found.map(({ kind, text }) => [kind, text])) };
}
