// Tests of the table of limits and its schemas: bounds are enforced, and no tool or call can raise the host's limits.
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
} from "../../src/sandbox/contract/limits.ts";
import { PartialLimitsSchema } from "../../src/sandbox/contract/partial-limits.ts";

const NAMES = Object.keys(LIMITS) as LimitName[];
const limitOf = (name: LimitName) => fc.integer({ min: LIMITS[name].min, max: LIMITS[name].max });
const whole = fc.record(
  Object.fromEntries(NAMES.map((name) => [name, limitOf(name)])),
) as unknown as fc.Arbitrary<Limits>;
const some = fc.record(Object.fromEntries(NAMES.map((name) => [name, fc.option(limitOf(name), { nil: undefined })])), {
  requiredKeys: [],
}) as unknown as fc.Arbitrary<PartialLimits>;

describe("LIMITS", () => {
  test.for(NAMES)("%s has a description and a default within its bounds", (name) => {
    const { min, max, about, default: value } = LIMITS[name];
    expect(value).toBeGreaterThanOrEqual(min);
    expect(value).toBeLessThanOrEqual(max);
    expect(about).not.toBe("");
  });
});

describe("LimitsSchema", () => {
  test("accepts the defaults and every complete set within the bounds", () => {
    expect(LimitsSchema.parse(DEFAULT_LIMITS)).toEqual(DEFAULT_LIMITS);
    fc.assert(
      fc.property(whole, (limits) => {
        expect(LimitsSchema.parse(limits)).toEqual(limits);
      }),
    );
  });

  test.for(NAMES)("rejects %s if it is missing, out of bounds, a fraction, or not a number", (name) => {
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

  test("rejects an unknown limit", () => {
    expect(LimitsSchema.safeParse({ ...DEFAULT_LIMITS, diskBytes: 1 }).success).toBe(false);
  });
});

describe("PartialLimitsSchema", () => {
  test("accepts any subset and rejects unknown limits", () => {
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
  test("never raises a limit", () => {
    fc.assert(
      fc.property(whole, fc.array(fc.option(some, { nil: undefined })), (base, others) => {
        const lowest = lowestLimits(base, ...others);
        for (const name of NAMES) {
          const configured = others.map((limits) => limits?.[name]).filter((value) => value !== undefined);
          expect(lowest[name]).toBe(Math.min(base[name], ...configured));
        }
      }),
    );
  });

  test("does not depend on the order and does not modify its arguments", () => {
    fc.assert(
      fc.property(whole, some, some, (base, one, other) => {
        const before = structuredClone(base);
        expect(lowestLimits(base, one, other)).toEqual(lowestLimits(base, other, one));
        expect(base).toEqual(before);
      }),
    );
  });

  test("returns a complete set that the worker accepts", () => {
    fc.assert(
      fc.property(whole, some, (base, other) => {
        expect(LimitsSchema.safeParse(lowestLimits(base, other)).success).toBe(true);
      }),
    );
  });

  test("ignores a limit that is NaN", () => {
    const hostile = { memoryMiB: Number.NaN } as PartialLimits;
    expect(lowestLimits(DEFAULT_LIMITS, hostile)).toEqual(DEFAULT_LIMITS);
  });
});
