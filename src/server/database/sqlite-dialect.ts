// kysely's SQLite dialect on node:sqlite, which is part of Node.js. Statements are prepared once.
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { type Dialect, type SqliteDatabase, SqliteDialect, type SqliteStatement } from "kysely";

/** How many prepared statements are kept. The server has fewer different ones. */
const MAX_STATEMENTS = 500;
/** Longest time in ms that a statement waits for another process, such as a backup. */
const BUSY_TIMEOUT_MS = 5_000;

/** What kysely sends when a transaction has failed. */
const ROLLBACK = "rollback";

const toInput = (value: unknown): SQLInputValue =>
  typeof value === "boolean" ? Number(value) : (value as SQLInputValue);

class Statement implements SqliteStatement {
  readonly #statement: StatementSync;
  readonly reader: boolean;

  constructor(statement: StatementSync) {
    this.#statement = statement;
    this.reader = statement.columns().length > 0;
  }

  all(parameters: readonly unknown[]): unknown[] {
    return this.#statement.all(...parameters.map(toInput));
  }

  run(parameters: readonly unknown[]): { changes: number | bigint; lastInsertRowid: number | bigint } {
    return this.#statement.run(...parameters.map(toInput));
  }

  iterate(parameters: readonly unknown[]): IterableIterator<unknown> {
    return this.#statement.iterate(...parameters.map(toInput)) as IterableIterator<unknown>;
  }
}

/** Ends a transaction that failed. On a full disk, SQLite has ended it: another error would take the place of the cause. */
class Rollback extends Statement {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    super(database.prepare(ROLLBACK));
    this.#database = database;
  }

  override run(parameters: readonly unknown[]): ReturnType<Statement["run"]> {
    return this.#database.isTransaction ? super.run(parameters) : { changes: 0, lastInsertRowid: 0 };
  }
}

class Database implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, Statement>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  prepare(text: string): Statement {
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    const statement = text === ROLLBACK ? new Rollback(this.#database) : new Statement(this.#database.prepare(text));
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear();
    this.#statements.set(text, statement);
    return statement;
  }

  close(): void {
    this.#statements.clear();
    if (this.#database.isOpen) this.#database.close();
  }
}

/**
 * Opens a SQLite file for the server. A write is durable when the process ends for whatever reason; after a power failure the last writes may
 * be missing, but the file is intact (`synchronous = NORMAL` with a write-ahead log).
 * @param path `:memory:` for a database in memory
 */
export function openSqlite(path: string): DatabaseSync {
  // Loaded with the first database: an import of the package must work on a Node without this module, and createServer() then names the cause.
  const sqlite = process.getBuiltinModule("node:sqlite");
  const database = new sqlite.DatabaseSync(path, { enableForeignKeyConstraints: true, timeout: BUSY_TIMEOUT_MS });
  database.exec(
    "pragma journal_mode = wal; pragma synchronous = normal; pragma secure_delete = on; pragma temp_store = memory",
  );
  return database;
}

export const createSqliteDialect = (database: DatabaseSync): Dialect =>
  new SqliteDialect({ database: new Database(database) });
