// Deletes many rows in batches, each in a transaction of its own: no statement reaches the time limit of Postgres or holds its locks for long,
// and with SQLite, whose statements hold the event loop, other requests have their turn between two batches.
import { setImmediate as nextTurn } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { DatabaseKind } from "../database/column-types.ts";

/** Time in ms that a batch should take: a row can have a few bytes or many MiB. */
const TARGET_MS = 20;
/** Rows of the first batch, and of the largest one. */
const SIZE = { first: 16, max: 500 } as const;

/**
 * Deletes until a batch finds fewer rows than it may delete.
 * @param deleteBatch deletes up to `limit` rows, and returns how many
 * @returns how many rows were deleted
 */
export async function deleteInBatches(deleteBatch: (limit: number) => Promise<number>): Promise<number> {
  let deleted = 0;
  for (let limit: number = SIZE.first; ; ) {
    const begun = performance.now();
    const count = await deleteBatch(limit);
    deleted += count;
    if (count < limit) return deleted;
    const tookMs = Math.max(1, performance.now() - begun);
    limit = Math.max(1, Math.min(SIZE.max, limit * 2, Math.floor((limit * TARGET_MS) / tookMs)));
    await nextTurn();
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
