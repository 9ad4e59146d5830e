// Deletes many rows in batches, each in a transaction of its own: with Postgres, a statement has few rows, and its locks are held for a short time,
// and with SQLite, whose statements hold the event loop, other requests have their turn between two batches.
import { type RawBuilder, sql } from "kysely";
import type { DatabaseKind } from "../database/column-types.ts";
import { type SliceSizes, Slices } from "./slices.ts";

/** A row can have a few bytes or many MiB. */
const SIZES: SliceSizes = { targetMs: 20, min: 16, first: 16, max: 500 };

/**
 * Deletes until a batch finds fewer rows than it may delete.
 * @param deleteBatch deletes up to `limit` rows, and returns how many
 * @returns how many rows were deleted
 */
export async function deleteInBatches(deleteBatch: (limit: number) => Promise<number>): Promise<number> {
  let deleted = 0;
  const batches = new Slices(SIZES);
  for (;;) {
    const count = await deleteBatch(batches.size);
    deleted += count;
    if (count < batches.size) return deleted;
    await batches.next();
  }
}

/** Returns a condition: up to `limit` rows of a table that another condition selects. Finds them by their place, whatever the key is. */
export function someRows(
  kind: DatabaseKind,
  table: string,
  condition: RawBuilder<unknown>,
  limit: number,
): RawBuilder<boolean> {
  const rows = (place: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`(select ${place} from ${sql.table(table)} where ${condition} limit ${limit})`;
  if (kind === "sqlite") return sql<boolean>`rowid in ${rows(sql`rowid`)}`;
  return sql<boolean>`ctid = any(array${rows(sql`ctid`)})`;
}
