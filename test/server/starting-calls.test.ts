// Calls that a server has accepted when it is stopped run, also those that have no slot yet.
import { sql } from "kysely";
import { afterAll, describe, expect, test, vi } from "vitest";
import { StartingCalls } from "../../src/server/calls/starting-calls.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { TestStores } from "./support/stores.ts";

const FOR_EVER_MS = 2 ** 31 - 1;

describe("StartingCalls.settled()", () => {
  test("resolves at once without calls, and else when each has started or ended", async () => {
    const starting = new StartingCalls();
    await starting.settled(FOR_EVER_MS);
    const one = starting.add("one");
    const two = starting.add("two");
    let isSettled = false;
    const settled = starting.settled(FOR_EVER_MS).then(() => {
      isSettled = true;
    });
    starting.started("one");
    one[Symbol.dispose]();
    await new Promise(setImmediate);
    expect(isSettled).toBe(false);
    two[Symbol.dispose]();
    await settled;
  });

  test("does not wait longer than it may", async () => {
    const starting = new StartingCalls();
    using _stuck = starting.add("stuck");
    await starting.settled(1);
    await starting.settled(1);
  });
});

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

test("a call that waits for its slot when the server is stopped runs", async () => {
  await using store = await stores.create("postgres");
  const options = { ...store.options, port: 0, logLevel: "silent", stopDelayMs: 0 } as const;
  await using server = await createServer(options);
  const api = apiOf(server);
  await api("POST", "/v1/tenants", { id: "acme" });
  await api("POST", "/v1/tenants/acme/tools", { name: "one", source: "export default () => 1" });
  await using database = await openDatabase({
    url: store.options.database,
    dataDir: store.options.dataDir,
    onError() {},
  });
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const holding = database.db.transaction().execute(async (transaction) => {
    // Slots are taken under the lock of the tenant's row.
    await sql`select id from tenants where id = 'acme' for no key update`.execute(transaction);
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  const call = api("POST", "/v1/tenants/acme/tools/one/calls", {});
  await vi.waitFor(async () => {
    const { rows } = await sql`select pid from pg_stat_activity where wait_event_type = 'Lock'`.execute(database.db);
    expect(rows).toHaveLength(1);
  });
  const closed = server.close();
  await vi.waitFor(() => expect(api("GET", "/v1/me")).rejects.toThrow());
  held.resolve();
  await holding;
  expect((await call).body).toMatchObject({ state: "succeeded", output: 1 });
  await closed;
});
