// Brings a database to the schema of this version. There are no down migrations: to go back, restore a backup.
//
// Replicas are upgraded one after the other, so a release has to work with the schema of the next one. Each migration states the oldest release
// that works with the schema after it, and the database keeps that: a migration expands the schema (new tables, new columns that may be null or
// have a default), and what no release uses any more is removed in a later release.
import { setTimeout as pause } from "node:timers/promises";
import { type Kysely, type Migration, type MigrationProvider, type MigrationResultSet, Migrator, sql } from "kysely";
import * as z from "zod";
import { ToolError } from "../../host/index.ts";
import { COLUMN_TYPES, type ColumnTypes, type DatabaseKind } from "./column-types.ts";
import { up as initial } from "./migrations/0001-initial.ts";
import { up as operations } from "./migrations/0002-operations.ts";
import { up as nestedCalls } from "./migrations/0003-nested-calls.ts";
import { up as recordings } from "./migrations/0004-recordings.ts";
import { up as runs } from "./migrations/0005-runs.ts";
import { up as runRequests } from "./migrations/0006-run-requests.ts";
import { up as replicas } from "./migrations/0007-replicas.ts";
import { up as sessionHomes } from "./migrations/0008-session-homes.ts";
import { up as concurrencySlots } from "./migrations/0009-concurrency-slots.ts";
import { up as fleetScope } from "./migrations/0010-fleet-scope.ts";
import { up as auditErasure } from "./migrations/0011-audit-erasure.ts";
import { up as storedBytes } from "./migrations/0012-stored-bytes.ts";
import { up as runKinds } from "./migrations/0013-run-kinds.ts";
import { up as replicaUrls } from "./migrations/0014-replica-urls.ts";
import { up as releaseCounts } from "./migrations/0016-release-counts.ts";
import { up as queuedCalls } from "./migrations/0017-queued-calls.ts";
import { up as keyLimits } from "./migrations/0018-key-limits.ts";
import { up as usedSignIns } from "./migrations/0019-used-sign-ins.ts";
import { up as endedDeliveries } from "./migrations/0020-ended-deliveries.ts";

interface KnownMigration {
  readonly up: (db: Kysely<unknown>, types: ColumnTypes) => Promise<void>;
  /**
   * Number of the last migration of the oldest release that works with the schema after this one: the number before, or a lower one, for a
   * migration that expands; its own number for one that removes or renames. Stored since 0007.
   */
  readonly worksWith: number;
}

/** In the order in which they run. A migration that was released never changes. */
const MIGRATIONS: { readonly [name: string]: KnownMigration } = {
  "0001-initial": { up: initial, worksWith: 1 },
  "0002-operations": { up: operations, worksWith: 1 },
  "0003-nested-calls": { up: nestedCalls, worksWith: 2 },
  "0004-recordings": { up: recordings, worksWith: 3 },
  "0005-runs": { up: runs, worksWith: 4 },
  "0006-run-requests": { up: runRequests, worksWith: 5 },
  "0007-replicas": { up: replicas, worksWith: 6 },
  "0008-session-homes": { up: sessionHomes, worksWith: 7 },
  "0009-concurrency-slots": { up: concurrencySlots, worksWith: 7 },
  // Before it, a key with a scope that the release does not know could not be read.
  "0010-fleet-scope": { up: fleetScope, worksWith: 10 },
  // A release before it appends to the chain as before. It cannot verify the entries of this one.
  "0011-audit-erasure": { up: auditErasure, worksWith: 10 },
  // Triggers count what a release before it writes.
  "0012-stored-bytes": { up: storedBytes, worksWith: 10 },
  // A release before it would claim a run of code as one of a tool, and end it.
  "0013-run-kinds": { up: runKinds, worksWith: 13 },
  // A release before it leaves the column null, and gets no calls of others.
  "0014-replica-urls": { up: replicaUrls, worksWith: 13 },
  // A release before it counts in each replica for itself, and adds nothing.
  "0016-release-counts": { up: releaseCounts, worksWith: 13 },
  "0017-queued-calls": { up: queuedCalls, worksWith: 13 },
  // A release before it does not limit the calls of a key.
  "0018-key-limits": { up: keyLimits, worksWith: 13 },
  // A release before it opens a session for each callback that the provider accepts, and adds nothing.
  "0019-used-sign-ins": { up: usedSignIns, worksWith: 13 },
  "0020-ended-deliveries": { up: endedDeliveries, worksWith: 13 },
};
/** The first migration after which the database has a table for rules. */
const FIRST_RULE = 7;

const numberOf = (name: string): number => Number(name.slice(0, 4));
const NAMES = Object.keys(MIGRATIONS);
/** Number of the last migration of this release. */
const LEVEL = numberOf(NAMES.at(-1) as string);

class Migrations implements MigrationProvider {
  readonly #types: ColumnTypes;

  constructor(kind: DatabaseKind) {
    this.#types = COLUMN_TYPES[kind];
  }

  async getMigrations(): Promise<Record<string, Migration>> {
    const entries = Object.entries(MIGRATIONS).map(([name, { up, worksWith }]): [string, Migration] => [
      name,
      {
        up: async (db) => {
          await up(db, this.#types);
          if (numberOf(name) < FIRST_RULE) return;
          await sql`insert into migration_rules (name, works_with) values (${name}, ${worksWith})`.execute(db);
        },
      },
    ]);
    return Object.fromEntries(entries);
  }
}

/** Longest time in ms that statements of other processes wait behind a migration that waits for a table, such as one that a backup reads. */
const LOCK_TIMEOUT_MS = 2_000;
/** Time in ms in which they go on before the migration tries again, and time in ms after which it fails. */
const RETRY_MS = 3_000;
const WAIT_MS = 10 * 60_000;
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Runs a function on a connection of Postgres whose statements may take any time, as those of a migration of large tables do, and so may the wait
 * for another process that migrates. They wait for a table only briefly, because other processes wait for it behind them.
 */
async function withoutTimeout<Tables, Value>(db: Kysely<Tables>, run: (db: Kysely<Tables>) => Promise<Value>) {
  return await db.connection().execute(async (connection) => {
    await sql`set statement_timeout = 0`.execute(connection);
    await sql`set lock_timeout = ${sql.lit(LOCK_TIMEOUT_MS)}`.execute(connection);
    try {
      return await run(connection);
    } finally {
      await sql`reset lock_timeout`.execute(connection);
      await sql`reset statement_timeout`.execute(connection);
    }
  });
}

/** Runs migrations. With Postgres, again while another process uses a table that they change. */
async function runMigrations<Tables>(
  db: Kysely<Tables>,
  kind: DatabaseKind,
  last: string | undefined,
): Promise<MigrationResultSet> {
  const run = async (on: Kysely<Tables>): Promise<MigrationResultSet> => {
    const migrator = new Migrator({ db: on, provider: new Migrations(kind) });
    return await (last === undefined ? migrator.migrateToLatest() : migrator.migrateTo(last));
  };
  if (kind === "sqlite") return await run(db);
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const result = await withoutTimeout(db, run);
    const { code } = (result.error ?? {}) as { readonly code?: unknown };
    if (code !== LOCK_NOT_AVAILABLE || performance.now() > until) return result;
    await pause(RETRY_MS);
  }
}

/**
 * Runs the migrations that the database has not seen. Several processes may do so at the same time: one of them migrates. A later schema that
 * this release works with stays as it is.
 * @param last name of the last migration to run. Default: all of them
 * @returns the names of the migrations that ran
 * @throws {ToolError} PARAM_INVALID for a later schema that this release does not work with; otherwise what the database throws. A failed
 *   migration leaves the database as it was
 */
export async function migrate<Tables>(
  db: Kysely<Tables>,
  kind: DatabaseKind,
  last?: string,
): Promise<readonly string[]> {
  if (await hasUsableLaterSchema(db)) return [];
  const { error, results = [] } = await runMigrations(db, kind, last);
  if (error !== undefined) {
    // A later release may have migrated at the same time.
    if (await hasUsableLaterSchema(db)) return [];
    throw error;
  }
  return results.filter(({ status }) => status === "Success").map(({ migrationName }) => migrationName);
}

/**
 * Checks that a database has the schema of this version, and changes nothing. For what reads or writes whole tables: a release does not know all
 * tables of a later schema.
 * @throws {ToolError} PARAM_INVALID for any other schema
 */
export async function checkSchema<Tables>(db: Kysely<Tables>): Promise<void> {
  const { later, missing } = await compare(db);
  if (later.length > 0)
    throw new ToolError(
      "PARAM_INVALID",
      `The database has a later schema (${list(later)}). Use a later version of Glovebox`,
    );
  if (missing.length > 0)
    throw new ToolError(
      "PARAM_INVALID",
      `The database has an earlier schema (without ${list(missing)}). Run: glovebox db migrate`,
    );
}

const MAX_LISTED = 5;
const MAX_NAME_LENGTH = 64;

/** Names of migrations in an error. They are from the database, so not too many and not too long ones. */
const list = (names: readonly string[]): string =>
  names
    .slice(0, MAX_LISTED)
    .map((name) => name.slice(0, MAX_NAME_LENGTH))
    .join(", ");

/** Compares the migrations that a database has seen with those of this release. */
async function compare<Tables>(
  db: Kysely<Tables>,
): Promise<{ readonly later: readonly string[]; readonly missing: readonly string[] }> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  const known = tables.some(({ name }) => name === "kysely_migration")
    ? (await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)).rows
    : [];
  const ran = new Set(known.map(({ name }) => name));
  return {
    later: [...ran].filter((name) => !NAMES.includes(name)),
    missing: NAMES.filter((name) => !ran.has(name)),
  };
}

const RulesSchema = z.array(z.strictObject({ name: z.string(), works_with: z.int() }));

/**
 * Returns whether a database has a later schema, with which this release works.
 * @throws {ToolError} PARAM_INVALID for a later schema with which it does not, or without a rule
 */
async function hasUsableLaterSchema<Tables>(db: Kysely<Tables>): Promise<boolean> {
  const { later, missing } = await compare(db);
  if (later.length === 0) return false;
  // Before this table, no release could start with a later schema.
  const rows = missing.includes("0007-replicas")
    ? []
    : (await sql`select name, works_with from migration_rules`.execute(db)).rows;
  const rules = new Map(RulesSchema.safeParse(rows).data?.map((rule) => [rule.name, rule.works_with]));
  const unusable = later.filter((name) => (rules.get(name) ?? Number.POSITIVE_INFINITY) > LEVEL);
  if (unusable.length === 0 && missing.length === 0) return true;
  const names = unusable.length > 0 ? unusable : later;
  throw new ToolError(
    "PARAM_INVALID",
    `The database has a later schema (${list(names)}) with which this version of Glovebox does not work. Use a later version`,
  );
}
