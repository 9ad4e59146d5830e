// Limits: one table, from which the schemas follow; nobody can raise what the host has set.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  DEFAULT_LIMITS,
  LIMITS,
  type LimitName,
  type Limits,
  LimitsSchema,
  lowestLimits,
  type PartialLimits,
  PartialLimitsSchema,
} from "../../src/sandbox/contract/limits.ts";

const NAMES = Object.keys(LIMITS) as LimitName[];
const limitOf = (name: LimitName) => fc.integer({ min: LIMITS[name].min, max: LIMITS[name].max });
const whole = fc.record(
  Object.fromEntries(NAMES.map((name) => [name, limitOf(name)])),
) as unknown as fc.Arbitrary<Limits>;
const some = fc.record(Object.fromEntries(NAMES.map((name) => [name, fc.option(limitOf(name), { nil: undefined })])), {
  requiredKeys: [],
}) as unknown as fc.Arbitrary<PartialLimits>;

describe("LIMITS", () => {
  test.for(NAMES)("%s has a default within its bounds, and says what it is", (name) => {
    const { min, max, about, default: value } = LIMITS[name];
    expect(value).toBeGreaterThanOrEqual(min);
    expect(value).toBeLessThanOrEqual(max);
    expect(about).not.toBe("");
  });
});

describe("LimitsSchema", () => {
  test("takes the defaults and every whole set within bounds", () => {
    expect(LimitsSchema.parse(DEFAULT_LIMITS)).toEqual(DEFAULT_LIMITS);
    fc.assert(
      fc.property(whole, (limits) => {
        expect(LimitsSchema.parse(limits)).toEqual(limits);
      }),
    );
  });

  test.for(NAMES)("refuses a %s that is missing, out of bounds, a fraction, or no number", (name) => {
    const { min, max } = LIMITS[name];
    for (const value of [
      undefined,
      min - 1,
      max + 1,
      min + 0.5,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      `${min}`,
      null,
    ]) {
      expect([value, LimitsSchema.safeParse({ ...DEFAULT_LIMITS, [name]: value }).success]).toEqual([value, false]);
    }
  });

  test("refuses a limit that is in no table", () => {
    expect(LimitsSchema.safeParse({ ...DEFAULT_LIMITS, diskBytes: 1 }).success).toBe(false);
  });
});

describe("PartialLimitsSchema", () => {
  test("takes any part of a set, and no stranger", () => {
    fc.assert(
      fc.property(some, (limits) => {
        expect(PartialLimitsSchema.safeParse(limits).success).toBe(true);
      }),
    );
    expect(PartialLimitsSchema.safeParse({}).success).toBe(true);
    expect(PartialLimitsSchema.safeParse({ timeout: 1 }).success).toBe(false);
  });
});

describe("lowestLimits()", () => {
  test("never raises a limit, whoever states it", () => {
    fc.assert(
      fc.property(whole, fc.array(fc.option(some, { nil: undefined })), (base, others) => {
        const lowest = lowestLimits(base, ...others);
        for (const name of NAMES) {
          const stated = others.map((limits) => limits?.[name]).filter((value) => value !== undefined);
          expect(lowest[name]).toBe(Math.min(base[name], ...stated));
        }
      }),
    );
  });

  test("gives the same whatever the order, and leaves what it was given alone", () => {
    fc.assert(
      fc.property(whole, some, some, (base, one, other) => {
        const before = structuredClone(base);
        expect(lowestLimits(base, one, other)).toEqual(lowestLimits(base, other, one));
        expect(base).toEqual(before);
      }),
    );
  });

  test("gives a whole set that the worker takes", () => {
    fc.assert(
      fc.property(whole, some, (base, other) => {
        expect(LimitsSchema.safeParse(lowestLimits(base, other)).success).toBe(true);
      }),
    );
  });

  test("is not raised by a limit that is no number", () => {
    const hostile = { memoryMiB: Number.NaN } as PartialLimits;
    expect(lowestLimits(DEFAULT_LIMITS, hostile)).toEqual(DEFAULT_LIMITS);
  });
});
