// Opens the server's database, SQLite or Postgres, and brings it to the current schema.
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { Kysely } from "kysely";
import type { DatabaseKind } from "./column-types.ts";
import { migrate } from "./migrate.ts";
import { createPostgresDialect } from "./postgres-dialect.ts";
import type { Schema } from "./schema.ts";
import { createSqliteDialect, openSqlite } from "./sqlite-dialect.ts";

export type Db = Kysely<Schema>;

/** An open database. Disposing it closes it. */
export interface OpenDatabase extends AsyncDisposable {
  readonly kind: DatabaseKind;
  readonly db: Db;
  /** Names of the migrations that ran when it was opened. */
  readonly migrated: readonly string[];
}

export interface DatabaseOptions {
  /** `postgres://…` or `postgresql://…`. Default: SQLite in `dataDir`. */
  readonly url: string | undefined;
  /** Folder of the SQLite file, created if it is missing, readable for this user only. */
  readonly dataDir: string;
  /** Receives errors of idle connections. */
  readonly onError: (error: Error) => void;
}

export const SQLITE_FILE = "glovebox.sqlite";

function openSqliteIn(dataDir: string): Db {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, SQLITE_FILE);
  const database = openSqlite(path);
  chmodSync(path, 0o600);
  return new Kysely<Schema>({ dialect: createSqliteDialect(database) });
}

/** @throws {ToolError} PARAM_INVALID if a package is missing; otherwise what the database throws */
export async function openDatabase({ url, dataDir, onError }: DatabaseOptions): Promise<OpenDatabase> {
  const kind = url === undefined ? "sqlite" : "postgres";
  const db =
    url === undefined
      ? openSqliteIn(dataDir)
      : new Kysely<Schema>({ dialect: await createPostgresDialect(url, onError) });
  try {
    const migrated = await migrate(db, kind);
    return { kind, db, migrated, [Symbol.asyncDispose]: () => db.destroy() };
  } catch (thrown) {
    await db.destroy();
    throw thrown;
  }
}
