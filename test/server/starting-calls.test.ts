// Calls that a server has accepted when it is stopped run, also those that have no slot yet.
import { setTimeout } from "node:timers/promises";
import { sql } from "kysely";
import { afterAll, describe, expect, test, vi } from "vitest";
import { StartingCalls } from "../../src/server/calls/running/starting-calls.ts";
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

/** Stops a server while a call waits for its slot. Returns the call, and for how long in ms it got none after the stop. */
async function stopWhileOneWaits(): Promise<{ readonly call: object; readonly heldMs: number }> {
  await using store = await stores.create("postgres");
  const { dataDir, database: url } = store.options;
  await using server = await createServer({ ...store.options, port: 0, logLevel: "silent", stopDelayMs: 0 });
  const api = apiOf(server);
  await api("POST", "/v1/tenants", { id: "acme" });
  await api("POST", "/v1/tenants/acme/tools", { name: "one", source: "export default () => 1" });
  await using database = await openDatabase({ url, dataDir, onError() {} });
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
  const stoppedAt = performance.now();
  const closed = server.close();
  // Without the wait, the slots are closed meanwhile.
  await Promise.race([call, setTimeout(200)]);
  const heldMs = performance.now() - stoppedAt;
  held.resolve();
  await holding;
  const { body } = await call;
  await closed;
  return { call: body, heldMs };
}

test("a call that waits for its slot when the server is stopped runs", async () => {
  let stopped = await stopWhileOneWaits();
  // The server waits for 5 s at most, which a busy machine may need for anything else.
  for (let attempt = 0; stopped.heldMs > 2_000 && attempt < 5; attempt += 1) stopped = await stopWhileOneWaits();
  expect(stopped.call).toMatchObject({ state: "succeeded", output: 1 });
});
