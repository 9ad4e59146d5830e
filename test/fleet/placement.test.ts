// The choice of an executor: stable for a tenant, never one that is full, and balanced.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Candidate, chooseExecutor, hashText } from "../../src/host/fleet/control/placement.ts";

const candidates = fc.uniqueArray(
  fc
    .record({
      id: fc.stringMatching(/^[a-z0-9]{1,8}$/),
      slots: fc.integer({ min: 1, max: 64 }),
      load: fc.nat(64),
      nested: fc.nat(256),
    })
    .map((one) => ({ ...one, hash: hashText(one.id) })),
  { selector: ({ id }) => id, maxLength: 20 },
);
const tenant = fc.string({ maxLength: 20 });
const idle = (count: number): Candidate[] =>
  Array.from({ length: count }, (_, index) => {
    const id = `executor-${index}`;
    return { id, hash: hashText(id), slots: 32, load: 0, nested: 0 };
  });

describe("chooseExecutor", () => {
  test("chooses one with room exactly if there is one", () => {
    fc.assert(
      fc.property(candidates, tenant, fc.boolean(), (all, key, isNested) => {
        const hasRoom = ({ load, slots, nested }: Candidate): boolean => (isNested ? nested < 3 * slots : load < slots);
        const chosen = chooseExecutor(all, key, isNested);
        expect(chosen === undefined).toBe(!all.some(hasRoom));
        if (chosen !== undefined) expect(hasRoom(chosen)).toBe(true);
      }),
    );
  });

  test("does not depend on the order of the candidates", () => {
    fc.assert(
      fc.property(candidates, tenant, (all, key) => {
        const equal = all.map((one) => ({ ...one, load: 0 }));
        expect(chooseExecutor(equal.toReversed(), key, false)?.id).toBe(chooseExecutor(equal, key, false)?.id);
      }),
    );
  });

  test("keeps the choice of a tenant when another executor leaves or joins", () => {
    fc.assert(
      fc.property(tenant, fc.integer({ min: 2, max: 30 }), fc.nat(), (key, count, at) => {
        const all = idle(count);
        const chosen = chooseExecutor(all, key, false);
        const left = all.filter((one, index) => one === chosen || index !== at % count);
        expect(chooseExecutor(left, key, false)).toBe(chosen);
      }),
    );
  });

  test("gives each of ten executors between 7 and 13 percent of 10,000 tenants", () => {
    const all = idle(10);
    const counts = new Map<string, number>();
    for (let index = 0; index < 10_000; index += 1) {
      const id = chooseExecutor(all, `tenant-${index}`, false)?.id ?? "";
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    for (const count of counts.values()) {
      expect(count).toBeGreaterThan(700);
      expect(count).toBeLessThan(1_300);
    }
  });

  test("spreads the calls of one tenant: no executor exceeds 1.25 times the mean, rounded up", () => {
    fc.assert(
      fc.property(tenant, fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 200 }), (key, count, calls) => {
        const all = idle(count).map((one) => ({ ...one, load: 0 }));
        const sent = Math.min(calls, 32 * count);
        for (let index = 0; index < sent; index += 1) {
          const chosen = chooseExecutor(all, key, false);
          if (chosen !== undefined) chosen.load += 1;
        }
        expect(all.reduce((sum, { load }) => sum + load, 0)).toBe(sent);
        for (const { load } of all) expect(load).toBeLessThanOrEqual(Math.ceil((1.25 * sent) / count));
      }),
    );
  });
});
