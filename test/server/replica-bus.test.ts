// Messages between replicas: each arrives once, whatever happens to connections and transactions, and rows that are not valid do no harm.
import { sql } from "kysely";
import { afterAll, describe, expect, test } from "vitest";
import { databaseNow } from "../../src/server/database/database-time.ts";
import { type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { LocalBus, type ReplicaBus } from "../../src/server/replicas/bus.ts";
import { decodeMessage, encodeMessage, MAX_MESSAGE_BYTES } from "../../src/server/replicas/messages.ts";
import { PostgresBus } from "../../src/server/replicas/postgres-bus.ts";
import { ReplicaRequests } from "../../src/server/replicas/requests.ts";
import { type TestStore, TestStores } from "./support/stores.ts";
import { openTcpProxy } from "./support/tcp-proxy.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const failOn = (error: unknown): never => expect.fail(String(error));

async function openStore(store: TestStore): Promise<OpenDatabase> {
  return await openDatabase({ url: store.options.database, dataDir: store.options.dataDir, onError() {} });
}

const openBus = async ({ db }: OpenDatabase, url: string, onError: (error: unknown) => void = failOn) =>
  await PostgresBus.open({ db, url, version: "1.0.0", onError });

/** Returns the list of the tenants in the messages that a bus receives, which grows. */
function received(bus: ReplicaBus): string[] {
  const tenants: string[] = [];
  bus.subscribe("tenant", ({ message }) => tenants.push(message.tenant));
  return tenants;
}

const killListeners = async ({ db }: OpenDatabase): Promise<number> => {
  const { rows } = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'glovebox-bus' and datname = current_database()`.execute(db);
  return rows.length;
};

describe("the bus on Postgres", () => {
  test("delivers each message once, also if transactions commit in another order or roll back", async () => {
    await using store = await stores.create("postgres");
    await using database = await openStore(store);
    const url = store.options.database ?? "";
    await using one = await openBus(database, url);
    await using two = await openBus(database, url);
    const [atOne, atTwo] = [received(one), received(two)];
    const late = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const slow = database.db.transaction().execute(async (transaction) => {
      await one.publish({ type: "tenant", tenant: "slow" }, transaction);
      begun.resolve();
      await late.promise;
    });
    await begun.promise;
    await database.db
      .transaction()
      .execute(async (transaction) => {
        await one.publish({ type: "tenant", tenant: "never" }, transaction);
        throw new Error("rolled back");
      })
      .catch(() => {});
    await one.publish({ type: "tenant", tenant: "fast" });
    await expect.poll(() => [atOne, atTwo]).toEqual([["fast"], ["fast"]]);
    late.resolve();
    await slow;
    await expect
      .poll(() => [atOne, atTwo])
      .toEqual([
        ["fast", "slow"],
        ["fast", "slow"],
      ]);
    const many = Array.from({ length: 60 }, (_, index) => `t${index}`);
    await Promise.all(many.map((tenant, index) => (index % 2 === 0 ? one : two).publish({ type: "tenant", tenant })));
    await expect.poll(() => [atOne.length, atTwo.length]).toEqual([62, 62]);
    expect(new Set(atTwo)).toEqual(new Set(["fast", "slow", ...many]));
  });

  test("loses no message when its listening connection ends, and listens again", async () => {
    await using store = await stores.create("postgres");
    await using database = await openStore(store);
    await using one = await openBus(database, store.options.database ?? "");
    const at = received(one);
    for (let round = 0; round < 3; round += 1) {
      await expect.poll(() => one.isListening).toBe(true);
      await expect.poll(() => killListeners(database)).toBeGreaterThan(0);
      await one.publish({ type: "tenant", tenant: `t${round}` });
      await expect.poll(() => at.length).toBe(round + 1);
    }
    expect(at).toEqual(["t0", "t1", "t2"]);
  });

  test("delivers by polling where it cannot listen", async () => {
    await using store = await stores.create("postgres");
    await using database = await openStore(store);
    const url = new URL(store.options.database ?? "");
    await using proxy = await openTcpProxy(Number(url.port));
    proxy.cut();
    url.port = String(proxy.port);
    await using bus = await openBus(database, url.href);
    const at = received(bus);
    await expect.poll(() => proxy.refused).toBeGreaterThan(1);
    await bus.publish({ type: "tenant", tenant: "acme" });
    await expect.poll(() => at).toEqual(["acme"]);
    expect(bus.isListening).toBe(false);
    proxy.restore();
    await expect.poll(() => bus.isListening).toBe(true);
  });

  test("ignores rows that are no messages, and what a handler throws concerns no other", async () => {
    await using store = await stores.create("postgres");
    await using database = await openStore(store);
    const errors: unknown[] = [];
    await using bus = await openBus(database, store.options.database ?? "", (error) => errors.push(error));
    bus.subscribe("tenant", () => {
      throw new Error("handler");
    });
    const at = received(bus);
    const bodies = [
      ...["", "{", "null", "[]", '{"type":"unknown"}', '{"type":"tenant","tenant":7}', '{"type":"tenant","tenant":""}'],
      ...[
        '{"type":"tenant","tenant":"x","more":1}',
        JSON.stringify({ type: "tenant", tenant: "x".repeat(50_000_000) }),
      ],
    ];
    for (const body of bodies) {
      await database.db
        .insertInto("replica_messages")
        .values({ sender: "s".repeat(10_000), body, created_at: databaseNow })
        .execute();
    }
    await bus.publish({ type: "tenant", tenant: "acme" });
    await expect.poll(() => at).toEqual(["acme"]);
    await expect.poll(() => errors.map(String)).toEqual(["Error: handler"]);
  });

  test("knows the replicas that live", async () => {
    await using store = await stores.create("postgres");
    await using database = await openStore(store);
    const url = store.options.database ?? "";
    await using one = await openBus(database, url);
    {
      await using two = await openBus(database, url);
      expect(await one.peers()).toEqual([two.replicaId]);
      expect(await two.peers()).toEqual([one.replicaId]);
    }
    expect(await one.peers()).toEqual([]);
    // One that has said nothing for a while.
    const old = { id: "replica-old", version: "1", started_at: 1, seen_at: sql<number>`${databaseNow} - 60000` };
    await database.db.insertInto("replicas").values(old).execute();
    expect(await one.peers()).toEqual([]);
  });

  test("a request has the answers of all replicas that live, or names those that are silent", async () => {
    await using store = await stores.create("postgres");
    await using database = await openStore(store);
    const url = store.options.database ?? "";
    await using one = await openBus(database, url);
    using requests = new ReplicaRequests(one);
    const question = { type: "cancel", tenant: "acme", call: "c" } as const;
    expect(await requests.send(question, { timeoutMs: 60_000, until: "all" })).toEqual({
      isDone: false,
      silent: [],
      counts: [],
    });
    await using two = await openBus(database, url);
    using others = new ReplicaRequests(two);
    const answers = [false, true];
    two.subscribe("cancel", async ({ message: { request = "" } }) => {
      await others.answer(request, answers.shift() === true);
    });
    expect(await requests.send(question, { timeoutMs: 60_000, until: "one" })).toEqual({
      isDone: false,
      silent: [],
      counts: [],
    });
    expect(await requests.send(question, { timeoutMs: 60_000, until: "one" })).toEqual({
      isDone: true,
      silent: [],
      counts: [],
    });
    await using three = await openBus(database, url);
    expect(await requests.send(question, { timeoutMs: 300, until: "all" })).toEqual({
      isDone: false,
      silent: expect.arrayContaining([three.replicaId]),
      counts: [],
    });
  });
});

test("the bus of one process delivers its own messages", async () => {
  await using bus = new LocalBus(failOn, "1.0.0");
  const at = received(bus);
  await bus.publish({ type: "tenant", tenant: "acme" });
  expect(at).toEqual([]);
  await expect.poll(() => at).toEqual(["acme"]);
  expect(await bus.peers()).toEqual([]);
});

test("a message is bounded, and its fields are checked", () => {
  const longest = { type: "tenant", tenant: "x".repeat(1_024) } as const;
  expect(decodeMessage(encodeMessage(longest))).toEqual(longest);
  expect(MAX_MESSAGE_BYTES).toBeLessThan(8_000);
  expect(() => encodeMessage({ type: "tenant", tenant: "x".repeat(1_025) })).toThrow(/1024/);
  expect(decodeMessage(`{"type":"queue"${" ".repeat(MAX_MESSAGE_BYTES)}}`)).toBeUndefined();
});
