// Removes what deleted rows have left behind in the database's files: in free pages, in pages that are in use, and in the write-ahead log.
import { Worker } from "node:worker_threads";
import { sql } from "kysely";
import type { OpenDatabase } from "./open-database.ts";

const ENTRY = new URL(`./vacuum-entry${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

/** Longest time in ms to wait for other processes that use the file, such as a backup. */
const BUSY_MS = 60_000;

/** Returns whether the write-ahead log is empty too. */
async function vacuumInThread(path: string, busyMs: number): Promise<boolean> {
  const thread = new Worker(ENTRY, {
    name: "glovebox-vacuum",
    workerData: { path, busyMs },
    env: {},
    // Node 24 calls its SQLite experimental, on stderr.
    execArgv: ["--no-warnings"],
  });
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  thread.once("message", resolve);
  thread.once("error", reject);
  thread.once("exit", () => reject(new Error("The thread that rewrites the database ended")));
  return await promise;
}

/** Rewrites that wait for the one that runs: one rewrite serves all deletions that precede it. */
const waiting = new WeakMap<OpenDatabase, Promise<boolean>>();

/**
 * Rewrites the file of SQLite. Statements wait meanwhile, the event loop does not. With Postgres, rewrites the tables if the operator wants it:
 * each is locked meanwhile.
 * @param options `busyMs`: longest wait for other processes that use the file of SQLite. Default: a minute
 * @returns whether the bytes of deleted rows are gone from the files
 */
export async function eraseDeleted(
  database: OpenDatabase,
  tables: readonly string[],
  { vacuumFull, busyMs = BUSY_MS }: { readonly vacuumFull: boolean; readonly busyMs?: number },
): Promise<boolean> {
  const { db, kind, path } = database;
  if (kind === "sqlite" && path !== undefined) {
    const shared = waiting.get(database);
    if (shared !== undefined) return await shared;
    // It takes the server's only connection, so that no statement of the server waits for the file within the event loop.
    const erasing = db.connection().execute(async () => {
      waiting.delete(database);
      return await vacuumInThread(path, busyMs);
    });
    waiting.set(database, erasing);
    return await erasing;
  }
  if (kind !== "postgres" || !vacuumFull) return false;
  await db.connection().execute(async (connection) => {
    await sql`set statement_timeout = 0`.execute(connection);
    try {
      for (const table of tables) await sql`vacuum (full, analyze) ${sql.table(table)}`.execute(connection);
      // The statistics contain frequent values of the columns. Without the rights of an owner, Postgres leaves them and warns.
      await sql`vacuum (full) pg_catalog.pg_statistic`.execute(connection);
    } finally {
      await sql`reset statement_timeout`.execute(connection);
    }
  });
  return true;
}
