// Conformance tests of every QuotaStore. The test of each implementation runs them, also that of a host's own store.
import { describe, expect, test } from "vitest";
import type {
  QuotaCharge,
  QuotaOutcome,
  QuotaStore,
  RateCharge,
  WindowCharge,
} from "../../../src/host/tenants/quotas/quota-store.ts";

/** A store, and the clock that it goes by. */
export interface StoreUnderTest {
  readonly store: QuotaStore;
  /** Lets time pass. */
  advance(ms: number): Promise<void> | void;
  /** Milliseconds since 1970, by the store's clock. */
  now(): number;
}

const ALLOWED: QuotaOutcome = { allowed: true };
let tenants = 0;
const newTenant = (): string => {
  tenants += 1;
  return `tenant-${tenants}`;
};

/** @param make called for each test */
export function testQuotaStore(name: string, make: () => Promise<StoreUnderTest>): void {
  const windowOf = ({ now }: StoreUnderTest, tenantId: string, charge: Partial<WindowCharge> = {}): WindowCharge => ({
    kind: "window",
    tenantId,
    name: "calls:minute:0",
    amount: 1,
    limit: 3,
    endsAt: now() + 60_000,
    ...charge,
  });
  const rateOf = (tenantId: string, charge: Partial<RateCharge> = {}): RateCharge => ({
    kind: "rate",
    tenantId,
    name: "calls:second",
    capacity: 2,
    refillMs: 1_000,
    ...charge,
  });
  const consume = async ({ store }: StoreUnderTest, ...charges: QuotaCharge[]): Promise<QuotaOutcome> =>
    await store.consume(charges);

  describe(name, () => {
    test("admits what the limit of a window allows, and says when it ends", async () => {
      const made = await make();
      const charge = windowOf(made, newTenant());
      for (let count = 0; count < 3; count += 1) expect(await consume(made, charge)).toEqual(ALLOWED);
      const denied = await consume(made, charge);
      expect(denied).toMatchObject({ allowed: false, denied: 0 });
      const { retryAfterMs = 0 } = denied as { readonly retryAfterMs?: number };
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(60_000);
    });

    test("denies an amount that would exceed the limit, and admits a smaller one", async () => {
      const made = await make();
      const tenantId = newTenant();
      expect(await consume(made, windowOf(made, tenantId, { amount: 2 }))).toEqual(ALLOWED);
      expect(await consume(made, windowOf(made, tenantId, { amount: 2 }))).toMatchObject({ allowed: false });
      expect(await consume(made, windowOf(made, tenantId, { amount: 1 }))).toEqual(ALLOWED);
    });

    test("an amount of 0 asks whether the limit has been reached, and a limit of 0 always has", async () => {
      const made = await make();
      const tenantId = newTenant();
      const ask = windowOf(made, tenantId, { amount: 0 });
      expect(await consume(made, ask)).toEqual(ALLOWED);
      await consume(made, windowOf(made, tenantId, { amount: 3 }));
      expect(await consume(made, ask)).toMatchObject({ allowed: false });
      expect(await consume(made, windowOf(made, newTenant(), { amount: 0, limit: 0 }))).toMatchObject({
        allowed: false,
      });
    });

    test("adds what has been spent without a limit, fractions included", async () => {
      const made = await make();
      const tenantId = newTenant();
      expect(await consume(made, windowOf(made, tenantId, { amount: 100.5, limit: undefined }))).toEqual(ALLOWED);
      expect(await consume(made, windowOf(made, tenantId, { amount: 0, limit: 100 }))).toMatchObject({
        allowed: false,
      });
      expect(await consume(made, windowOf(made, tenantId, { amount: 0, limit: 101 }))).toEqual(ALLOWED);
    });

    test("counts each window, each name and each tenant apart", async () => {
      const made = await make();
      const tenantId = newTenant();
      const full = windowOf(made, tenantId, { amount: 3 });
      await consume(made, full);
      for (const other of [
        { ...full, name: "calls:minute:60000" },
        { ...full, name: "cpuMs:minute:0" },
        { ...full, tenantId: newTenant() },
        { ...full, tenantId: "__proto__" },
      ]) {
        expect(await consume(made, other)).toEqual(ALLOWED);
      }
      expect(await consume(made, { ...full, amount: 1 })).toMatchObject({ allowed: false });
    });

    test("gives a full bucket at first, and then a token at a time", async () => {
      const made = await make();
      const charge = rateOf(newTenant());
      expect([await consume(made, charge), await consume(made, charge)]).toEqual([ALLOWED, ALLOWED]);
      const denied = await consume(made, charge);
      expect(denied).toMatchObject({ allowed: false, denied: 0 });
      const { retryAfterMs = 0 } = denied as { readonly retryAfterMs?: number };
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(1_000);
      await made.advance(retryAfterMs);
      expect(await consume(made, charge)).toEqual(ALLOWED);
      expect(await consume(made, charge)).toMatchObject({ allowed: false });
      await made.advance(10_000);
      const outcomes = [await consume(made, charge), await consume(made, charge), await consume(made, charge)];
      expect(outcomes.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    });

    test("denies no calls until a time that was stored before the clock was set back", async () => {
      const made = await make();
      const charge = rateOf(newTenant());
      await made.advance(3_600_000);
      for (let count = 0; count < 2; count += 1) expect(await consume(made, charge)).toEqual(ALLOWED);
      // The clocks of two hosts differ by less.
      await made.advance(-30_000);
      expect(await consume(made, charge)).toMatchObject({ allowed: false });
      await made.advance(-3_570_000);
      for (let count = 0; count < 2; count += 1) expect(await consume(made, charge)).toEqual(ALLOWED);
      expect(await consume(made, charge)).toMatchObject({ allowed: false });
    });

    test("makes all charges or none, and names the one that was denied", async () => {
      const made = await make();
      const tenantId = newTenant();
      const rate = rateOf(tenantId, { capacity: 1, refillMs: 3_600_000 });
      const full = windowOf(made, tenantId, { name: "calls:day:0", limit: 0 });
      const free = windowOf(made, tenantId, { name: "calls:month:0", limit: 1 });
      expect(await consume(made, rate, free, full)).toMatchObject({ allowed: false, denied: 2 });
      expect(await consume(made, rate, free)).toEqual(ALLOWED);
      expect(await consume(made, rate, free)).toMatchObject({ allowed: false });
    });

    test("admits no more than the limit, however many ask at one time", async () => {
      const made = await make();
      const charge = windowOf(made, newTenant(), { limit: 10 });
      const outcomes = await Promise.all(Array.from({ length: 50 }, () => consume(made, charge)));
      expect(outcomes.filter(({ allowed }) => allowed)).toHaveLength(10);
    });

    test("forgets a deleted tenant, and no other", async () => {
      const made = await make();
      const [tenantId, other] = [newTenant(), newTenant()];
      for (const whose of [tenantId, other]) {
        await consume(made, windowOf(made, whose, { amount: 3 }), rateOf(whose, { capacity: 1 }));
      }
      expect(await made.store.deleteTenant(tenantId)).toBe(2);
      expect(await made.store.deleteTenant(tenantId)).toBe(0);
      expect(await consume(made, windowOf(made, tenantId, { amount: 3 }), rateOf(tenantId))).toEqual(ALLOWED);
      expect(await consume(made, windowOf(made, other))).toMatchObject({ allowed: false });
    });
  });
}
