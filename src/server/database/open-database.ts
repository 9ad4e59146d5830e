// Opens the server's database, SQLite or Postgres, and brings it to the current schema.
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Kysely, sql } from "kysely";
import { makeFolderSync } from "../../bundler/locate/make-folder.ts";
import { ToolError } from "../../host/index.ts";
import { SQLITE_FILE } from "../config/data-files.ts";
import type { DatabaseKind } from "./column-types.ts";
import { type LockOptions, lockDataFolder } from "./data-folder-lock.ts";
import { openDatabaseClock, SYSTEM_CLOCK, type WallClock } from "./database-clock.ts";
import { checkSchema, migrate } from "./migrate.ts";
import { createPostgresDialect } from "./postgres-dialect.ts";
import type { DatabaseSchema } from "./schema.ts";
import { createSqliteDialect, openSqlite } from "./sqlite-dialect.ts";

export type Db = Kysely<DatabaseSchema>;

/** An open database. Disposing it closes it. */
export interface OpenDatabase extends AsyncDisposable {
  readonly kind: DatabaseKind;
  readonly db: Db;
  /** The time by which all processes with this database go. */
  readonly clock: WallClock;
  /** The file of SQLite. */
  readonly path?: string;
  /** Names of the migrations that ran when it was opened. */
  readonly migrated: readonly string[];
}

export interface DatabaseOptions {
  /** `postgres://…` or `postgresql://…`. Default: SQLite in `dataDir`. */
  readonly url: string | undefined;
  /** Folder of the SQLite file, created if it is missing, readable for this user only. */
  readonly dataDir: string;
  /** Receives errors of connections. */
  readonly onError: (error: Error) => void;
  /** Called after the first failed attempt to reach Postgres, with what the log should say. */
  readonly onWaiting?: ((message: string) => void) | undefined;
  /** Whether the database is brought to the current schema. Otherwise it must have it. @default true */
  readonly migrates?: boolean;
  /** With SQLite, keeps the data folder to this process until the database is closed. Default: other processes may use it too. */
  readonly lock?: LockOptions | undefined;
}

/** @throws {ToolError} PARAM_INVALID if the folder or the file cannot be created, read or written */
function openSqliteIn(dataDir: string): Db {
  const path = join(dataDir, SQLITE_FILE);
  try {
    makeFolderSync(dataDir);
    const database = openSqlite(path);
    chmodSync(path, 0o600);
    return new Kysely<DatabaseSchema>({ dialect: createSqliteDialect(database) });
  } catch (cause) {
    const { message } = cause as Error;
    throw new ToolError("PARAM_INVALID", `options.dataDir: Cannot open ${JSON.stringify(path)}: ${message}`, { cause });
  }
}

/** How long a start waits for Postgres, which may start at the same time, and how long it pauses between attempts, in ms. */
export const STARTUP_WAIT_MS = 60_000;
export const RETRY_MS = 500;
/** States of Postgres in which another attempt may succeed: connection failures, and "too many connections". The others are settled. */
const MAY_PASS = /^(08|57P0|53300)/;

/** Whether a failed connection may succeed later. Errors of sockets have codes such as ECONNREFUSED, and timeouts of `pg` have none. */
const mayPass = ({ code = "" }: { readonly code?: unknown }): boolean => {
  const text = String(code);
  return !/^[0-9A-Z]{5}$/.test(text) || MAY_PASS.test(text);
};

/** Codes of sockets, and texts of `pg` and Kysely, for a connection that could not be made, or that ended. */
const LOST = /^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)$/;
const LOST_TEXT =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Postgres connection has been discarded)/;

/** Whether an error means that a connection to Postgres was lost, for example because Postgres restarts. */
export function isLostConnection(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  const code = "code" in thrown ? String(thrown.code) : "";
  return MAY_PASS.test(code) || LOST.test(code) || LOST_TEXT.test(thrown.message);
}

/** @throws {ToolError} PARAM_INVALID if Postgres rejects connections, or accepts none for a minute */
async function waitForPostgres(db: Db, onWaiting?: (message: string) => void): Promise<void> {
  const until = performance.now() + STARTUP_WAIT_MS;
  let hasFailed = false;
  for (;;) {
    try {
      await sql`select 1`.execute(db);
      return;
    } catch (thrown) {
      const { message, code } = thrown as Error & { readonly code?: unknown };
      // An error of several addresses has no message. None contains the URL, or the password in it.
      const problem = `Cannot connect to the Postgres database: ${message || String(code)}`;
      if (!mayPass({ code }) || performance.now() >= until)
        throw new ToolError("PARAM_INVALID", problem, { cause: thrown });
      if (!hasFailed) onWaiting?.(`${problem}; trying again`);
      hasFailed = true;
      await pause(RETRY_MS);
    }
  }
}

/**
 * @throws {ToolError} PARAM_INVALID if a package is missing, Postgres cannot be reached, the data folder is locked, or the schema must be current
 *   and is not
 */
export async function openDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  const { url, dataDir, onError, onWaiting, migrates = true, lock } = options;
  const kind = url === undefined ? "sqlite" : "postgres";
  const db =
    url === undefined
      ? openSqliteIn(dataDir)
      : new Kysely<DatabaseSchema>({ dialect: await createPostgresDialect(url, onError) });
  let folder: Disposable | undefined;
  const close = async (): Promise<void> => {
    await db.destroy();
    folder?.[Symbol.dispose]();
  };
  try {
    if (kind === "postgres") await waitForPostgres(db, onWaiting);
    // Before the schema changes: the server that uses it may be one of an earlier release.
    else if (lock !== undefined) folder = await lockDataFolder(dataDir, lock);
    if (!migrates) await checkSchema(db);
    const migrated = migrates ? await migrate(db, kind) : [];
    if (kind === "sqlite") {
      const path = join(dataDir, SQLITE_FILE);
      return { kind, db, clock: SYSTEM_CLOCK, migrated, path, [Symbol.asyncDispose]: close };
    }
    const clock = await openDatabaseClock(db, onError);
    return {
      kind,
      db,
      clock,
      migrated,
      [Symbol.asyncDispose]: async () => {
        await clock[Symbol.asyncDispose]();
        await close();
      },
    };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}
