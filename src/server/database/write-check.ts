// Checks that the database accepts writes: one that can be read can still be full, read-only, or without its disk.
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { sql } from "kysely";
import type { OpenDatabase } from "./open-database.ts";

/** Free space in bytes below which a disk counts as full. SQLite can write a little on a full disk: its log has space from before. */
const MIN_FREE_BYTES = 1024 * 1024;

/**
 * Writes what changes nothing, durably, and checks that SQLite's files can grow.
 * @param replicaId the row of this process in Postgres
 * @throws what the database throws, such as for a full disk
 */
export async function checkWrite(
  { db, kind, path }: Pick<OpenDatabase, "db" | "kind" | "path">,
  replicaId: string,
): Promise<void> {
  if (kind === "postgres") {
    await db
      .updateTable("replicas")
      .set(({ ref }) => ({ version: ref("version") }))
      .where("id", "=", replicaId)
      .execute();
    return;
  }
  if (path !== undefined) await checkSpace(dirname(path));
  // An update of a row to the same values writes nothing in SQLite. The header of the file is always written.
  const { rows } = await sql<{ user_version: number }>`pragma user_version`.execute(db);
  await sql.raw(`pragma user_version = ${Number(rows[0]?.user_version ?? 0)}`).execute(db);
}

async function checkSpace(folder: string): Promise<void> {
  const { blocks, bavail, bsize } = await statfs(folder);
  // Some file systems have no fixed size.
  if (blocks > 0 && bavail * bsize < MIN_FREE_BYTES)
    throw new Error(`The disk of the database has less than ${MIN_FREE_BYTES} free bytes`);
}
