// Brings a database to the schema of this version. Migrations only go forward: the way back is a backup.
import { type Kysely, type Migration, type MigrationProvider, Migrator } from "kysely";
import { COLUMN_TYPES, type ColumnTypes, type DatabaseKind } from "./column-types.ts";
import { up as initial } from "./migrations/0001-initial.ts";
import { up as operations } from "./migrations/0002-operations.ts";

type MigrateUp = (db: Kysely<unknown>, types: ColumnTypes) => Promise<void>;

/** In the order in which they run. A migration that was released never changes. */
const MIGRATIONS: { readonly [name: string]: MigrateUp } = {
  "0001-initial": initial,
  "0002-operations": operations,
};

class Migrations implements MigrationProvider {
  readonly #types: ColumnTypes;

  constructor(kind: DatabaseKind) {
    this.#types = COLUMN_TYPES[kind];
  }

  async getMigrations(): Promise<Record<string, Migration>> {
    const entries = Object.entries(MIGRATIONS);
    return Object.fromEntries(entries.map(([name, up]) => [name, { up: (db) => up(db, this.#types) }]));
  }
}

/**
 * Runs the migrations that the database has not seen. Several processes may do so at the same time: one of them migrates.
 * @returns the names of the migrations that ran
 * @throws what the database throws; a failed migration leaves the database as it was
 */
export async function migrate<Tables>(db: Kysely<Tables>, kind: DatabaseKind): Promise<readonly string[]> {
  const migrator = new Migrator({ db, provider: new Migrations(kind) });
  const { error, results = [] } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
  return results.filter(({ status }) => status === "Success").map(({ migrationName }) => migrationName);
}
