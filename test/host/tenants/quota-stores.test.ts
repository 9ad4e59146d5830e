// The quota store in memory: what holds for every store, and what it promises beyond.
import { expect, test } from "vitest";
import { MemoryQuotaStore } from "../../../src/host/tenants/quotas/memory-quota-store.ts";
import { windowAt } from "../../../src/host/tenants/quotas/quota-options.ts";
import { testQuotaStore } from "./quota-store-conformance.ts";

testQuotaStore("MemoryQuotaStore", async () => {
  let now = Date.now();
  const advance = (ms: number): void => {
    now += ms;
  };
  return { store: new MemoryQuotaStore({ now: () => now }), advance, now: () => now };
});

const chargeOf = (tenantId: string, endsAt: number) =>
  ({ kind: "window", tenantId, name: "calls:minute:0", amount: 1, limit: 5, endsAt }) as const;

test("MemoryQuotaStore rejects new counters when it is full, and takes them again when others have ended", () => {
  let now = 0;
  const store = new MemoryQuotaStore({ now: () => now, maxCounters: 10 });
  for (let index = 0; index < 10; index += 1) store.consume([chargeOf(`t${index}`, 1_000 + index)]);
  expect(() => store.consume([chargeOf("more", 60_000)])).toThrow("The quota store in memory is full");
  // Existing counters still count.
  expect(store.consume([{ ...chargeOf("t1", 1_001), amount: 5 }])).toMatchObject({ allowed: false });
  now = 5_000;
  expect(store.consume([chargeOf("more", 60_000)])).toEqual({ allowed: true });
});

test.for([
  ["minute", "2026-02-28T23:59:59.999Z", "2026-02-28T23:59:00.000Z", "2026-03-01T00:00:00.000Z"],
  ["hour", "2026-02-28T23:59:59.999Z", "2026-02-28T23:00:00.000Z", "2026-03-01T00:00:00.000Z"],
  ["day", "2026-02-28T00:00:00.000Z", "2026-02-28T00:00:00.000Z", "2026-03-01T00:00:00.000Z"],
  ["month", "2026-12-31T23:59:59.999Z", "2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"],
  ["month", "2028-02-29T12:00:00.000Z", "2028-02-01T00:00:00.000Z", "2028-03-01T00:00:00.000Z"],
] as const)("a %s at %s begins at %s and ends at %s, in UTC", ([period, at, startsAt, endsAt]) => {
  const window = windowAt(period, Date.parse(at));
  expect([new Date(window.startsAt).toISOString(), new Date(window.endsAt).toISOString()]).toEqual([startsAt, endsAt]);
});
