// An overview of more calls than are read one by one: its numbers are those of the usage, and it says from when its durations are complete.
import { afterAll, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { insertEndedCalls } from "../../src/server/records/call-outcomes.ts";
import { readOverview } from "../../src/server/records/overview.ts";
import { TenantPolicySchema } from "../../src/server/records/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const START = Date.UTC(2026, 5, 1);
const HOURS = 24;

test.for(STORES)("counts all calls of a busy time with %s", async (kind) => {
  await using store = await stores.create(kind);
  const { database: url, dataDir } = store.options;
  await using database = await openDatabase({ url, dataDir, onError() {} });
  const { db } = database;
  await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  const rows = Array.from({ length: HOURS }, (_, hour) => {
    const at = START + hour * HOUR_MS;
    const tool_name = hour < 12 ? "old" : "new";
    const error = JSON.stringify({ code: hour % 2 === 0 ? "TOOL_FAILED" : "CANCELLED", message: "no" });
    const state = hour % 2 === 0 ? "failed" : "cancelled";
    return [
      { row: endedRow(at + 10 * MINUTE_MS, { tool_name }) },
      { row: endedRow(at + 40 * MINUTE_MS, { tool_name, state, error }) },
    ];
  });
  await insertEndedCalls(db, rows.flat());
  const period = { tenantId: "acme", from: START, until: START + HOURS * HOUR_MS, buckets: HOURS };
  const whole = await readOverview(db, period);
  expect(whole).toMatchObject({ isPartial: false, completeFrom: START, total: { calls: 48, failed: 12, p50: 1 } });

  // The newest eight are those of the last four hours.
  const busy = await readOverview(db, { ...period, maxCalls: 8 });
  const counts = ({ calls, failed }: { readonly calls: number; readonly failed: number }) => [calls, failed];
  expect(busy).toMatchObject({ isPartial: true, completeFrom: START + 20 * HOUR_MS + 10 * MINUTE_MS });
  expect(counts(busy.total)).toEqual([48, 12]);
  expect(busy.buckets.map(counts)).toEqual(whole.buckets.map(counts));
  expect(busy.buckets.map(({ p50 }) => p50)).toEqual(
    Array.from({ length: HOURS }, (_, hour) => (hour < 20 ? null : 1)),
  );
  expect(busy.tools.map((tool) => [tool.tool, ...counts(tool), tool.p50])).toEqual([
    ["new", 24, 6, 1],
    ["old", 24, 6, null],
  ]);
  const everyone = await readOverview(db, { ...period, tenantId: undefined, maxCalls: 8, buckets: 7 });
  expect(everyone.buckets.reduce((sum, { calls }) => sum + calls, 0)).toBe(48);
});
