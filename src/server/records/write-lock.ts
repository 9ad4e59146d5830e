// Runs a change in a transaction, together with its audit record. Changes of the API run one after the other, also among several server
// processes: the audit log is a chain, and a change may depend on what it has read.
import { sql } from "kysely";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";

/** Key of the advisory lock in Postgres: any number that nothing else in the database uses. */
const ADVISORY_LOCK = 7_070_001;

/**
 * Runs a change of configuration (not a call) in a transaction that no other one overlaps.
 * @throws what `change` throws; nothing is stored then
 */
export async function changeExclusively<Value>(
  { db, kind }: { readonly db: Db; readonly kind: DatabaseKind },
  change: (transaction: Db) => Promise<Value>,
): Promise<Value> {
  return await db.transaction().execute(async (transaction) => {
    // SQLite has one connection, which a transaction holds until its end.
    if (kind === "postgres") await sql`select pg_advisory_xact_lock(${ADVISORY_LOCK})`.execute(transaction);
    return await change(transaction);
  });
}
