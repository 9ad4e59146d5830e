// An overview of more calls than are read one by one: its numbers are those of the usage, and it says from when its durations are complete.
import { afterAll, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { insertEndedCalls } from "../../src/server/records/calls/call-outcomes.ts";
import { insertCalls } from "../../src/server/records/calls/calls.ts";
import { readOverview } from "../../src/server/records/reports/overview.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
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

test.for(STORES)("adds up CPU time and waiting calls by tenant and by tool with %s", async (kind) => {
  await using store = await stores.create(kind);
  const { database: url, dataDir } = store.options;
  await using database = await openDatabase({ url, dataDir, onError() {} });
  const { db } = database;
  for (const id of ["acme", "globex"]) await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
  const usage = (cpuMs: number, queueMs: number): string => JSON.stringify({ cpuMs, queueMs });
  const at = START + 10 * MINUTE_MS;
  const later = at + HOUR_MS;
  await insertEndedCalls(db, [
    { row: endedRow(at, { usage: usage(7, 2) }) },
    // It waited for a second in the queue, after it was approved, and then for a process.
    {
      row: endedRow(later, {
        mode: "async",
        run_at: later + 5_000,
        started_at: later + 6_000,
        ended_at: later + 6_100,
        usage: usage(5, 30),
      }),
    },
    // A durable run that was suspended for a minute.
    {
      row: endedRow(later + 1, {
        tool_name: "slow",
        mode: "run",
        started_at: later + MINUTE_MS,
        ended_at: later + MINUTE_MS,
        usage: usage(100, 4),
      }),
    },
    { row: endedRow(later + 2, { tenant_id: "globex", state: "cancelled", started_at: null }) },
  ]);
  const queued = { state: "queued", started_at: null, ended_at: null, input: "{}", run_at: later } as const;
  await insertCalls(db, [
    endedRow(later, { ...queued, tool_name: "stuck" }),
    endedRow(later, { ...queued, tool_name: "stuck" }),
    endedRow(later, { ...queued, tenant_id: "globex" }),
  ]);
  const period = { from: START, until: START + 2 * HOUR_MS, buckets: 2 };
  const all = await readOverview(db, { ...period, tenantId: undefined });
  expect(all).toMatchObject({ cpuMs: 112, queued: 3, total: { calls: 4, cpuMs: 112, waitP95: 1_030 } });
  expect(all.buckets.map(({ cpuMs, waitP95 }) => [cpuMs, waitP95])).toEqual([
    [7, 2],
    [105, 1_030],
  ]);
  expect(all.tools.map((row) => [row.tenantId, row.tool, row.calls, row.cpuMs, row.waitP95, row.queued])).toEqual(
    expect.arrayContaining([
      ["acme", "common", 2, 12, 1_030, 0],
      ["acme", "slow", 1, 100, 4, 0],
      ["acme", "stuck", 0, 0, null, 2],
      ["globex", "common", 1, 0, null, 1],
    ]),
  );
  expect(all.tenants.map((row) => [row.tenantId, row.calls, row.cpuMs, row.waitP95, row.queued])).toEqual([
    ["acme", 3, 112, 1_030, 2],
    ["globex", 1, 0, null, 1],
  ]);
  const own = await readOverview(db, { ...period, tenantId: "acme" });
  expect([own.tools.length, own.tenants.length, own.queued]).toEqual([3, 1, 2]);

  // Calls that are not read one by one: their CPU time comes from the usage by hour, and their waiting time is unknown.
  const busy = await readOverview(db, { ...period, tenantId: "acme", maxCalls: 1 });
  expect(busy.isPartial).toBe(true);
  expect(busy.tenants.map((row) => row.tenantId)).toEqual(["acme"]);
  expect(busy.tools.find(({ tool }) => tool === "common")).toMatchObject({ waitP95: null, queued: 0 });
  expect(busy.tools.find(({ tool }) => tool === "slow")?.cpuMs).toBeGreaterThanOrEqual(100);
});
