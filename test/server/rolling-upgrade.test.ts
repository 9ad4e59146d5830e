// A release works with the schema of the next one, so that replicas can be upgraded one after the other: migrations expand the schema, and a
// release starts with, and keeps working on, a schema whose rule names it.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Kysely, sql } from "kysely";
import { afterAll, describe, expect, test } from "vitest";
import { SQLITE_FILE } from "../../src/server/config/data-files.ts";
import { migrate } from "../../src/server/database/migrate.ts";
import { type Db, openDatabase } from "../../src/server/database/open-database.ts";
import { createPostgresDialect } from "../../src/server/database/postgres-dialect.ts";
import type { DatabaseSchema } from "../../src/server/database/schema.ts";
import { createSqliteDialect, openSqlite } from "../../src/server/database/sqlite-dialect.ts";
import { createServer } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const open = async ({ options: { database: url, dataDir } }: TestStore) =>
  await openDatabase({ url, dataDir, onError() {} });

/** Does what the next release will do: adds a column and a table, or removes a column. */
async function migrateLater(db: Db, { isContracting = false, rule = 1 as number | null } = {}): Promise<void> {
  await sql`alter table calls add column later_note text`.execute(db);
  await sql`alter table tenants add column later_level integer not null default 3`.execute(db);
  await sql`create table later_things (id text primary key, tenant_id text not null references tenants (id))`.execute(
    db,
  );
  if (isContracting) await sql`alter table calls drop column attempts`.execute(db);
  await sql`insert into kysely_migration (name, timestamp) values ('9999-later', '2030-01-01')`.execute(db);
  if (rule !== null)
    await sql`insert into migration_rules (name, works_with) values ('9999-later', ${rule})`.execute(db);
}

describe.for(STORES)("with %s", (kind) => {
  test("a release works with a later schema that has only more, before and after its own start", async () => {
    await using store = await stores.create(kind);
    const options = { ...store.options, limits: { timeoutMs: 300_000 }, port: 0, logLevel: "silent" } as const;
    let key: string | undefined;
    const use = async (url: string, round: number): Promise<void> => {
      const api = apiOf({ url, adminKey: undefined }, key);
      const name = `tool-${round}`;
      const deployed = await api("POST", "/v1/tenants/acme/tools", {
        name,
        source: "export default ({ n }) => n + 1;",
      });
      expect([deployed.status, deployed.body.error]).toEqual([201, undefined]);
      const path = `/v1/tenants/acme/tools/${name}/calls`;
      const made = await api("POST", path, { input: { n: round } });
      expect([made.body.error, made.body.output]).toEqual([null, round + 1]);
      const { body } = await api("POST", path, { input: { n: round } }, { prefer: "respond-async" });
      await expect
        .poll(async () => (await api("GET", `/v1/tenants/acme/calls/${body.id}`)).body)
        .toMatchObject({ state: "succeeded", output: round + 1 });
      expect((await api("PATCH", "/v1/tenants/acme", { name: `Round ${round}` })).status).toBe(200);
      expect((await api("POST", "/v1/tenants", { id: `tenant-${round}` })).status).toBe(201);
    };
    {
      await using server = await createServer(options);
      key = server.adminKey;
      const api = apiOf(server);
      expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
      await use(server.url, 1);
      // The first replica of the next release starts.
      await using database = await open(store);
      await migrateLater(database.db);
      await use(server.url, 2);
    }
    // And a replica of this release starts again, such as after a crash.
    await using server = await createServer(options);
    await use(server.url, 3);
  });

  test.for([
    ["says that this release does not work with it", { isContracting: true, rule: 9_999 }],
    ["says nothing", { rule: null }],
  ] as const)("a release does not start with a later schema that %s, and leaves it as it is", async ([, later]) => {
    await using store = await stores.create(kind);
    {
      await using database = await open(store);
      await migrateLater(database.db, later);
    }
    const options = { ...store.options, limits: { timeoutMs: 300_000 }, port: 0, logLevel: "silent" } as const;
    const message =
      /later schema \(9999-later\) with which this version of Glovebox does not work\. Use a later version/;
    await expect(createServer(options)).rejects.toThrow(message);
    // What reads whole tables needs exactly its own schema.
    const { dataDir, database: url } = store.options;
    await expect(openDatabase({ url, dataDir, onError() {}, migrates: false })).rejects.toThrow(/later schema/);
  });

  test("each migration only adds, so that the release before it goes on", async () => {
    await using store = await stores.create(kind);
    const { dataDir, database = "" } = store.options;
    const statements: string[] = [];
    const db = new Kysely<DatabaseSchema>({
      dialect:
        kind === "sqlite"
          ? createSqliteDialect(openSqlite(join(dataDir, SQLITE_FILE)))
          : await createPostgresDialect(database, () => {}),
      log: ({ query }) => void statements.push(query.sql.toLowerCase()),
    });
    const names = await migrate(db, kind);
    expect(names.length).toBeGreaterThan(5);
    await db.destroy();
    const created = new Set<string>();
    const contracting: string[] = [];
    for (const statement of statements) {
      const table = /^create table "(\w+)"/.exec(statement)?.[1];
      // Kysely's own tables are its own matter.
      if (table !== undefined) created.add(table);
      if (/^(drop|truncate|delete)\b/.test(statement)) contracting.push(statement);
      if (/^alter table/.test(statement)) {
        const adds = /^alter table "\w+" add column "\w+" [^,]*$/.test(statement);
        if (!adds || (/not null/.test(statement) && !/default/.test(statement))) contracting.push(statement);
      }
    }
    expect(created.size).toBeGreaterThan(20);
    expect(contracting).toEqual([]);
  });
});

/** Number of the lock under which Kysely migrates. */
const KYSELY_LOCK = "3853314791062309107";

describe("a migration of Postgres", () => {
  const connect = async (url: string): Promise<Db> =>
    new Kysely<DatabaseSchema>({ dialect: await createPostgresDialect(url, () => {}) });
  const waiting = async (db: Db): Promise<boolean> => {
    const { rows } = await sql`select 1 from pg_locks where not granted`.execute(db);
    return rows.length > 0;
  };

  test("does not stop the statements of other replicas while it waits for a table that a backup reads", async () => {
    await using store = await stores.create("postgres");
    const db = await connect(store.options.database ?? "");
    await migrate(db, "postgres", "0017-queued-calls");
    const isOver = Promise.withResolvers<void>();
    const isRead = Promise.withResolvers<void>();
    const backup = db.transaction().execute(async (transaction) => {
      await sql`select count(*) from api_keys`.execute(transaction);
      isRead.resolve();
      await isOver.promise;
    });
    await isRead.promise;
    const migrated = migrate(db, "postgres", "0018-key-limits");
    await expect.poll(() => waiting(db), { timeout: 60_000 }).toBe(true);
    // While the backup still reads.
    await sql`select count(*) from api_keys`.execute(db);
    isOver.resolve();
    await backup;
    expect(await migrated).toEqual(["0018-key-limits"]);
    await db.destroy();
  });

  test("waits for the migration of another replica for longer than any other statement may take", async () => {
    await using store = await stores.create("postgres");
    const url = store.options.database ?? "";
    const statementTimeoutMs = 2_000;
    const first = await connect(url);
    const second = await connect(`${url}?statement_timeout=${statementTimeoutMs}`);
    const lock = sql.raw(KYSELY_LOCK);
    let migrated: Promise<readonly string[]> | undefined;
    await first.connection().execute(async (connection) => {
      await sql`select pg_advisory_lock(${lock})`.execute(connection);
      migrated = migrate(second, "postgres");
      migrated.catch(() => {});
      await expect.poll(() => waiting(first), { timeout: 60_000 }).toBe(true);
      await sleep(2 * statementTimeoutMs);
      await sql`select pg_advisory_unlock(${lock})`.execute(connection);
    });
    expect((await migrated)?.length).toBeGreaterThan(5);
    await Promise.all([first.destroy(), second.destroy()]);
  });
});
