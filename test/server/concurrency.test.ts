// What several servers on one Postgres must not get wrong: quotas are never exceeded, the audit log is one chain, and an old database is brought
// to the current schema once.

import { join } from "node:path";
import { Kysely, sql } from "kysely";
import { afterAll, describe, expect, test, vi } from "vitest";
import { SQLITE_FILE } from "../../src/server/config/data-files.ts";
import { isOutage } from "../../src/server/database/database-errors.ts";
import { checkSchema, migrate } from "../../src/server/database/migrate.ts";
import { type Db, isLostConnection, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { createPostgresDialect } from "../../src/server/database/postgres-dialect.ts";
import type { DatabaseSchema } from "../../src/server/database/schema.ts";
import { createSqliteDialect, openSqlite } from "../../src/server/database/sqlite-dialect.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { appendAudit, SERVER_ACTOR } from "../../src/server/records/audit/audit.ts";
import { verifyAudit } from "../../src/server/records/audit/audit-chain.ts";
import { listKeys } from "../../src/server/records/tenants/api-keys.ts";
import { changeExclusively } from "../../src/server/records/write-lock.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const openStore = async ({ options }: TestStore, migrates = true): Promise<OpenDatabase> =>
  await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {}, migrates });

/** Opens a database without migrations. */
async function openRaw({ kind, options: { dataDir, database = "" } }: TestStore): Promise<Db> {
  const dialect =
    kind === "sqlite"
      ? createSqliteDialect(openSqlite(join(dataDir, SQLITE_FILE)))
      : await createPostgresDialect(database, () => {});
  return new Kysely<DatabaseSchema>({ dialect });
}

async function withServers(count: number, store: TestStore, use: (servers: readonly Server[]) => Promise<void>) {
  const servers: Server[] = [];
  try {
    for (let index = 0; index < count; index += 1) {
      // Servers on several machines share the key, not the folder.
      servers.push(await createServer({ ...store.options, port: 0, logLevel: "silent", masterKey: "00".repeat(32) }));
    }
    await use(servers);
  } finally {
    for (const server of servers) await server.close({ drainMs: 0 });
  }
}

describe("two servers on one Postgres", () => {
  test("never run more calls than a quota allows, and all that it allows", async () => {
    await using store = await stores.create("postgres");
    await withServers(2, store, async (servers) => {
      const { adminKey } = servers[0] as Server;
      const apis = servers.map((server) => apiOf(server, adminKey));
      const [api] = apis as [ReturnType<typeof apiOf>];
      await api("POST", "/v1/tenants", { id: "acme", policy: { quotas: { calls: { month: 25 } } } });
      await api("POST", "/v1/tenants/acme/tools", { name: "one", source: "export default () => 1" });
      // In waves: the counter is one row, which calls lock one after the other, and each of them waits for its turn for 2 s at most.
      const send = (index: number) => (apis[index % 2] as typeof api)("POST", "/v1/tenants/acme/tools/one/calls", {});
      const replies: Awaited<ReturnType<typeof send>>[] = [];
      // On a busy machine, more waves are needed until the quota is used up, and then it holds for another one.
      for (let wave = 0, hasDenied = 0; wave < 5 || (hasDenied === 0 && wave < 40); wave += 1) {
        replies.push(...(await Promise.all(Array.from({ length: 16 }, (_, index) => send(index)))));
        hasDenied = replies.filter(({ status }) => status === 429).length;
      }
      const ran = replies.filter(({ status }) => status === 200).length;
      const others = replies.filter(({ status }) => status !== 200 && status !== 429);
      // On a busy machine, a call that waited 2 s for the counter is denied, and may be counted nevertheless.
      const reasons = others.map(({ body }) => (body.error as { details?: { reason?: string } }).details?.reason);
      expect(reasons.filter((reason) => reason !== "quota_store_failed")).toEqual([]);
      expect(ran).toBeLessThanOrEqual(25);
      expect(ran + others.length).toBeGreaterThanOrEqual(25);
      await using database = await openStore(store);
      const counters = await database.db.selectFrom("quota_counters").select(["name", "value"]).execute();
      expect(counters).toEqual([{ name: expect.stringMatching(/^calls:month:/), value: 25 }]);
      expect((await api("GET", "/v1/tenants/acme/quotas")).body).toMatchObject({
        quotas: [{ name: "calls:month", limit: 25, used: 25, remaining: 0 }],
      });
    });
  });

  test("write one audit chain", async () => {
    await using store = await stores.create("postgres");
    await withServers(2, store, async (servers) => {
      const { adminKey } = servers[0] as Server;
      const ids = Array.from({ length: 40 }, (_, index) => `t${index}`);
      const created = await Promise.all(
        ids.map((id, index) => apiOf(servers[index % 2] as Server, adminKey)("POST", "/v1/tenants", { id })),
      );
      expect(created.map(({ status }) => status)).toEqual(ids.map(() => 201));
      await using database = await openStore(store);
      const { db } = database;
      // Also in transactions that end in another order, and some of which fail.
      const outcomes = await Promise.allSettled(
        ids.map((id, index) =>
          changeExclusively(database, async (transaction) => {
            await appendAudit(transaction, {
              actor: SERVER_ACTOR,
              tenantId: null,
              action: "test",
              target: id,
              details: { index },
            });
            if (index % 4 === 3) throw new Error("rolled back");
          }),
        ),
      );
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(30);
      expect((await verifyAudit(db)).brokenAt).toBeUndefined();
      const rows = await db.selectFrom("audit").select(["sequence", "action"]).orderBy("sequence").execute();
      expect(rows.map(({ sequence }) => sequence)).toEqual(rows.map((_, index) => index + 1));
      expect(rows.filter(({ action }) => action === "tenant.created")).toHaveLength(40);
    });
  });
});

test("changes that wait for another server's hold one connection, run in their order, and wait for a limited time", async () => {
  await using store = await stores.create("postgres");
  await using database = await openStore(store);
  await using other = await openStore(store, false);
  const { db } = database;
  const countWaiting = async (): Promise<number> => {
    const { rows } = await sql`select 1 from pg_locks where locktype = 'advisory' and not granted`.execute(other.db);
    return rows.length;
  };
  const held = Promise.withResolvers<void>();
  const hasLock = Promise.withResolvers<void>();
  const holder = changeExclusively(other, async () => {
    hasLock.resolve();
    await held.promise;
  });
  await hasLock.promise;
  const order: number[] = [];
  // More than the pool has connections.
  const indexes = Array.from({ length: 30 }, (_, index) => index);
  const changes = indexes.map((index) =>
    changeExclusively(database, async (transaction) => {
      order.push(index);
      await sql`select 1`.execute(transaction);
      if (index % 3 === 1) throw new Error("rolled back");
    }),
  );
  const settled = Promise.allSettled(changes);
  const late = changeExclusively(database, async () => order.push(-1), 10);
  const error = await late.catch((thrown: unknown) => thrown);
  // The server answers it with 503 and Retry-After.
  expect([isOutage(error), isLostConnection(error)]).toEqual([true, false]);
  await vi.waitFor(async () => expect(await countWaiting()).toBeGreaterThan(0), { timeout: 60_000 });
  // Reads have connections meanwhile: without one, they would fail.
  expect(await Promise.all(indexes.map(() => listKeys(db, null, { limit: 10 })))).toHaveLength(30);
  expect(await countWaiting()).toBe(1);
  held.resolve();
  await holder;
  const outcomes = await settled;
  expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(10);
  expect(order).toEqual(indexes);
});

describe.for(STORES)("migrations with %s", (kind) => {
  /** Columns and indexes of all tables, and the names of the migrations. */
  async function schemaOf({ db }: OpenDatabase): Promise<unknown> {
    const tables = await db.introspection.getTables({ withInternalKyselyTables: false });
    const columns = tables.map(({ name, columns: all }) => ({
      name,
      columns: all.map(({ name: column, dataType, isNullable }) => ({ column, dataType, isNullable })),
    }));
    const indexes =
      kind === "sqlite"
        ? await sql`select name, sql from sqlite_master where type = 'index' and sql is not null order by name`.execute(
            db,
          )
        : await sql`select indexname, indexdef from pg_indexes where schemaname = 'public' order by indexname`.execute(
            db,
          );
    return { columns: columns.toSorted((a, b) => (a.name < b.name ? -1 : 1)), indexes: indexes.rows };
  }

  test("run once on an empty database, also if several servers start at the same time", async () => {
    await using store = await stores.create(kind);
    // A file of SQLite belongs to one server; its start is repeated.
    const opened =
      kind === "postgres" ? await Promise.all([1, 2, 3].map(() => openStore(store))) : [await openStore(store)];
    const names = opened.flatMap(({ migrated }) => migrated);
    expect(names.length).toBeGreaterThan(5);
    expect(new Set(names).size).toBe(names.length);
    for (const database of opened) await database[Symbol.asyncDispose]();
    await using again = await openStore(store, false);
    expect(await migrate(again.db, kind)).toEqual([]);
  });

  test("bring each earlier schema to the current one, and keep its rows", async () => {
    await using current = await stores.create(kind);
    await using whole = await openStore(current);
    const expected = await schemaOf(whole);
    for (let known = 1; known < whole.migrated.length; known += 1) {
      await using store = await stores.create(kind);
      const target = whole.migrated[known - 1] as string;
      {
        await using db = await openRaw(store);
        expect(await migrate(db, kind, target)).toHaveLength(known);
        await db
          .insertInto("tenants")
          .values({
            id: "acme",
            name: "Acme",
            state: "active",
            policy: "{}",
            revision: 3,
            created_at: 1,
            updated_at: 2,
          })
          .execute();
        await expect(checkSchema(db)).rejects.toThrow(/glovebox db migrate/);
      }
      await using after = await openStore(store);
      expect(after.migrated).toEqual(whole.migrated.slice(known));
      expect(await schemaOf(after)).toEqual(expected);
      const row = await after.db.selectFrom("tenants").selectAll().executeTakeFirstOrThrow();
      expect(row).toMatchObject({ id: "acme", name: "Acme", revision: 3 });
    }
  });

  test("let administrators of an earlier release drain executors, and no other key", async () => {
    await using store = await stores.create(kind);
    const scopes = { admin: ["tenants:write", "keys:write"], reader: ["tenants:read", "of-a-later-release"] };
    {
      await using db = await openRaw(store);
      await migrate(db, kind, "0009-concurrency-slots");
      for (const [id, granted] of Object.entries(scopes))
        await db
          .insertInto("api_keys")
          .values({
            id,
            tenant_id: null,
            name: id,
            hash: id,
            prefix: id,
            scopes: JSON.stringify(granted),
            created_at: 1,
            expires_at: null,
            last_used_at: null,
            revoked_at: null,
            rate_limit: null,
          })
          .execute();
    }
    await using after = await openStore(store);
    expect(await listKeys(after.db, null, { limit: 50 })).toMatchObject([
      { id: "admin", scopes: ["tenants:write", "keys:write", "fleet:write"] },
      { id: "reader", scopes: ["tenants:read"] },
    ]);
  });
});
