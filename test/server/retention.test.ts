// When expired data is deleted: soon after the start of a server, and then once an hour.
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { startRetention } from "../../src/server/calls/retention.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { listCalls } from "../../src/server/records/call-list.ts";
import { insertCalls } from "../../src/server/records/calls.ts";
import { TenantPolicySchema } from "../../src/server/records/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants.ts";
import { endedRow } from "./support/call-row.ts";
import { TestStores } from "./support/stores.ts";

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
  using _retention = startRetention(database, [{ sweep }], (error) => errors.push(error));
  await vi.advanceTimersByTimeAsync(60_000);
  await swept.promise;
  expect((await listCalls(db, "acme", { limit: 10 })).rows).toHaveLength(1);
  swept = Promise.withResolvers();
  await vi.advanceTimersByTimeAsync(60 * 60_000);
  await swept.promise;
  expect([sweeps, errors]).toEqual([2, []]);
});
