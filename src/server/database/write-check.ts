// Checks that the database accepts writes: one that can be read can still be full, read-only, or without its disk.
import { sql } from "kysely";
import type { OpenDatabase } from "./open-database.ts";

/**
 * Writes what changes nothing, durably.
 * @param replicaId the row of this process in Postgres
 * @throws what the database throws, such as for a full disk
 */
export async function checkWrite({ db, kind }: Pick<OpenDatabase, "db" | "kind">, replicaId: string): Promise<void> {
  if (kind === "postgres") {
    await db
      .updateTable("replicas")
      .set(({ ref }) => ({ version: ref("version") }))
      .where("id", "=", replicaId)
      .execute();
    return;
  }
  // An update of a row to the same values writes nothing in SQLite. The header of the file is always written.
  const { rows } = await sql<{ user_version: number }>`pragma user_version`.execute(db);
  await sql.raw(`pragma user_version = ${Number(rows[0]?.user_version ?? 0)}`).execute(db);
}
