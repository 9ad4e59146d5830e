// When expired data is deleted: soon after the start of a server, and then once an hour.
import { type RawBuilder, sql } from "kysely";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { KvSpace } from "../../src/host/index.ts";
import { deleteExpiredCalls, startRetention } from "../../src/server/calls/retention.ts";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import type { DeliveriesTable } from "../../src/server/database/tables/event-tables.ts";
import { createServer } from "../../src/server/index.ts";
import { DatabaseKvStore } from "../../src/server/kv/database-kv-store.ts";
import { listCalls } from "../../src/server/records/calls/call-list.ts";
import { insertCalls } from "../../src/server/records/calls/calls.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] }));
afterEach(() => void vi.useRealTimers());

test("a server that runs for a minute deletes what has expired, and one that goes on does so each hour", async () => {
  await using store = await stores.create("sqlite");
  await using database = await openDatabase({ url: undefined, dataDir: store.options.dataDir, onError() {} });
  const { db } = database;
  await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  await insertCalls(db, [endedRow(Date.now() - 400 * 86_400_000), endedRow(Date.now())]);
  let sweeps = 0;
  let swept = Promise.withResolvers<void>();
  const sweep = async (): Promise<void> => {
    sweeps += 1;
    swept.resolve();
  };
  const errors: unknown[] = [];
  const failure = new Error("failed");
  const failing = { sweep: () => Promise.reject(failure) };
  using _retention = startRetention(database, [failing, { sweep }], (error) => errors.push(error));
  await vi.advanceTimersByTimeAsync(60_000);
  await swept.promise;
  expect((await listCalls(db, "acme", { limit: 10 })).rows).toHaveLength(1);
  swept = Promise.withResolvers();
  await vi.advanceTimersByTimeAsync(60 * 60_000);
  await swept.promise;
  // A sweep that fails does not keep the others from running.
  expect([sweeps, errors]).toEqual([2, [failure, failure]]);
});

const DAY_MS = 86_400_000;
const toDelivery = (tenantId: string, index: number, endedAt: number | null): DeliveriesTable => ({
  id: `delivery-${tenantId}-${index}`,
  tenant_id: tenantId,
  webhook_id: `webhook-${tenantId}`,
  event: "call.succeeded",
  body: "{}",
  state: endedAt === null ? "waiting" : "delivered",
  attempts: 1,
  run_at: Date.now() + DAY_MS,
  lease_until: null,
  fence: 1,
  status: 200,
  error: null,
  created_at: endedAt ?? Date.now(),
  ended_at: endedAt,
});

/** Lets a statement fail that deletes more rows than a batch has, as one does that takes longer than Postgres allows. */
async function limitBatches(db: Db, table: "deliveries" | "kv_entries"): Promise<void> {
  await sql`create function limit_batches() returns trigger language plpgsql as $$ begin
    if (select count(*) from gone) > 500 then raise exception 'too many rows in one statement'; end if;
    return null; end $$`.execute(db);
  await sql`create trigger limit_batches after delete on ${sql.table(table)} referencing old table as gone
    for each statement execute function limit_batches()`.execute(db);
}

describe.for(STORES)("with %s", (kind) => {
  beforeEach(() => void vi.useRealTimers());

  const open = ({ options }: TestStore): Promise<OpenDatabase> =>
    openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
  const countDeliveries = async (db: Db): Promise<object> => {
    const { rows } = await sql<{ tenant_id: string; count: number | string }>`
      select tenant_id, count(*) as count from deliveries group by tenant_id`.execute(db);
    return Object.fromEntries(rows.map((row) => [row.tenant_id, Number(row.count)]));
  };

  /** Lets the deletion of some rows fail, until the function that it returns is called. */
  const stopDeletion = async (db: Db, table: string, rows: RawBuilder<unknown>): Promise<() => Promise<unknown>> => {
    const on = sql.table(table);
    if (kind === "postgres") {
      await sql`create function stop_deletion() returns trigger language plpgsql as $$ begin
        raise exception 'stopped'; end $$`.execute(db);
      await sql`create trigger stop_deletion before delete on ${on} for each row when (${rows})
        execute function stop_deletion()`.execute(db);
    } else {
      await sql`create trigger stop_deletion before delete on ${on} when ${rows}
        begin select raise(abort, 'stopped'); end`.execute(db);
    }
    return () => sql`drop trigger stop_deletion ${kind === "postgres" ? sql`on ${on}` : sql``}`.execute(db);
  };

  test("expired values are deleted in batches, and a failure for one tool keeps no other one's", async () => {
    await using store = await stores.create(kind);
    await using database = await open(store);
    const { db } = database;
    const kv = new DatabaseKvStore(database, async () => {});
    const spaceOf = (tool: string): KvSpace => ({ tenantId: "acme", tool });
    const quota = { keys: 1_201, bytes: 1_000_000 };
    const write = { kind: "json", data: Buffer.from("1"), quota } as const;
    for (const tool of ["a", "b", "full"]) {
      await kv.set(spaceOf(tool), "kept", write);
      const [row] = await db.selectFrom("kv_entries").selectAll().where("tool", "=", tool).execute();
      if (row === undefined) throw new Error("No entry");
      const expired = Array.from({ length: 1_200 }, (_, index) => ({
        ...row,
        key: Buffer.from(`key-${index}`),
        expires_at: Date.now() - 1_000,
      }));
      await db.insertInto("kv_entries").values(expired).execute();
      const usage = { keys: 1_201, bytes: 1_201 * row.size };
      await db.updateTable("kv_spaces").set(usage).where("tool", "=", tool).execute();
    }
    await db.insertInto("kv_spaces").values({ tenant_id: "acme", tool: "none", keys: 0, bytes: 0 }).execute();
    if (kind === "postgres") await limitBatches(db, "kv_entries");
    const resume = await stopDeletion(db, "kv_entries", sql`old.tool = ${sql.lit("a")}`);
    // A new value in a space that is full.
    expect(await kv.set(spaceOf("full"), "more", write)).toMatchObject({ status: "stored" });
    const errors: unknown[] = [];
    await kv.sweep((error) => errors.push(error));
    expect(errors).toMatchObject([{ message: expect.stringContaining("stopped") }]);
    const kept = { keys: 1, bytes: 5 };
    expect(await kv.spaces("acme", { limit: 10 })).toEqual([
      { tool: "a", keys: 1_201, bytes: 6_005 },
      { tool: "b", ...kept },
      { tool: "full", keys: 2, bytes: 10 },
    ]);
    expect(await db.selectFrom("kv_spaces").select("tool").where("tool", "=", "none").execute()).toEqual([]);
    await resume();
    await kv.sweep((error) => errors.push(error));
    expect(errors).toHaveLength(1);
    expect(await kv.usage(spaceOf("a"))).toEqual(kept);
    expect(await db.selectFrom("kv_entries").select("tool").orderBy("tool").execute()).toEqual(
      ["a", "b", "full", "full"].map((tool) => ({ tool })),
    );
  });

  test("old deliveries are deleted in batches, and a failure for one tenant keeps no other one's", async () => {
    await using store = await stores.create(kind);
    await using database = await open(store);
    const { db } = database;
    const old = Date.now() - 400 * DAY_MS;
    for (const id of ["acme", "beta"]) {
      await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
      const ended = Array.from({ length: 1_200 }, (_, index) => toDelivery(id, index, old + index));
      const kept = [toDelivery(id, 1_200, null), toDelivery(id, 1_201, Date.now())];
      await db
        .insertInto("deliveries")
        .values([...ended, ...kept])
        .execute();
      await insertCalls(db, [endedRow(old, { tenant_id: id })]);
    }
    // The oldest of one tenant cannot be deleted.
    if (kind === "postgres") await limitBatches(db, "deliveries");
    const resume = await stopDeletion(db, "deliveries", sql`old.id = ${sql.lit("delivery-acme-0")}`);
    const errors: unknown[] = [];
    expect(await deleteExpiredCalls(db, Date.now(), (error) => errors.push(error))).toBe(2);
    expect(errors).toMatchObject([{ message: expect.stringContaining("stopped") }]);
    expect(await countDeliveries(db)).toEqual({ acme: 1_202, beta: 2 });
    await resume();
    expect(await deleteExpiredCalls(db, Date.now(), (error) => errors.push(error))).toBe(0);
    expect(errors).toHaveLength(1);
    expect(await countDeliveries(db)).toEqual({ acme: 2, beta: 2 });
  });

  test("the deliveries of a deleted webhook are deleted in batches, also by a second request", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    await api("POST", "/v1/tenants", { id: "acme" });
    const hook = { url: "https://example.com/hook", events: ["call.succeeded"] };
    const { body } = await api<{ id: string }>("POST", "/v1/tenants/acme/webhooks", hook);
    await using database = await open(store);
    const { db } = database;
    if (kind === "postgres") await limitBatches(db, "deliveries");
    const add = async (first: number): Promise<void> => {
      const rows = Array.from({ length: 1_200 }, (_, index) => toDelivery("acme", first + index, Date.now()));
      await db
        .insertInto("deliveries")
        .values(rows.map((row) => ({ ...row, webhook_id: body.id })))
        .execute();
    };
    await add(0);
    await db
      .insertInto("deliveries")
      .values(toDelivery("acme", 9_999, null))
      .execute();
    const path = `/v1/tenants/acme/webhooks/${body.id}`;
    expect((await api("DELETE", path)).status).toBe(200);
    expect(await countDeliveries(db)).toEqual({ acme: 1 });
    // As after a request that was stopped before it had deleted them.
    await add(2_000);
    expect((await api("DELETE", path)).status).toBe(404);
    expect(await countDeliveries(db)).toEqual({ acme: 1 });
  });
});
