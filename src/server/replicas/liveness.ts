// When a replica counts as alive: it updates its row every two seconds.
import { type RawBuilder, sql } from "kysely";
import { databaseNow } from "../database/database-time.ts";
import type { Db } from "../database/open-database.ts";

/** Time in ms between two updates of a replica's row, and without one after which it does not count as alive. */
export const HEARTBEAT_MS = 2_000;
export const SILENT_MS = 8_000;

/** Returns a condition: whether a replica lives. @param id its id; it may be a column of `replicas` itself, hence the name of the inner table */
export const aliveCondition = (id: RawBuilder<unknown>): RawBuilder<boolean> => sql<boolean>`exists (
  select 1 from replicas as living where living.id = ${id} and living.seen_at > ${databaseNow} - ${SILENT_MS}::bigint)`;

/** Counts the replicas that live, for a process that is none of them. */
export async function countReplicas(db: Db): Promise<number> {
  const condition = aliveCondition(sql.ref("replicas.id"));
  const { rows } = await sql`select id from replicas where ${condition}`.execute(db);
  return rows.length;
}
