// Tests that numbers beyond the range of a double are found in JSON text.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { containsNonFinite } from "../../../src/host/json/non-finite.ts";

const check = (text: string): boolean => containsNonFinite(JSON.parse(text), text);

describe("containsNonFinite()", () => {
  test.for(["1e309", "-1E400", '{"a":[0,{"b":1e+999}]}', "9".repeat(400), `[${"1".repeat(310)}.5]`])(
    "returns true for %s",
    (text) => {
      expect(check(text)).toBe(true);
    },
  );

  test.for([
    "1e308",
    "1.7976931348623157e308",
    '"1e999"',
    '{"1e999":0}',
    "0.1e-400",
    "123456789",
    "null",
    "9".repeat(300),
  ])("returns false for %s", (text) => {
    expect(check(text)).toBe(false);
  });

  test("agrees with Number() on numbers of any length and exponent, at any position", () => {
    const number = fc
      .tuple(fc.integer({ min: 1, max: 9 }), fc.nat(330), fc.nat(330), fc.constantFrom("", ".5"))
      .map(([digit, digits, exponent, fraction]) => `${`${digit}`.repeat(digits + 1)}${fraction}e${exponent}`);
    fc.assert(
      fc.property(fc.array(fc.oneof(number, fc.constant('"9"'))), (items) => {
        const isInfinite = items.some((item) => Number(item.replaceAll('"', "")) === Number.POSITIVE_INFINITY);
        expect(check(`[${items.join(",")}]`)).toBe(isInfinite);
      }),
      { numRuns: 500 },
    );
  });
});
