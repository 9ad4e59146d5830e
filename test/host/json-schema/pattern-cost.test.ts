// estimateCost(): never under the truth. A pattern it calls cheap is run on strings made to hurt it, with a clock.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { estimateCost } from "../../../src/host/json-schema/checks/pattern-cost.ts";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { expectQuick, msPerRun } from "../../support/processes.ts";

describe("estimateCost()", () => {
  test.for<[string, number]>([
    ["^abc$", 0],
    ["abc", 1],
    ["^[a-z]+$", 1],
    ["^\\d{4}-\\d\\d-\\d\\d$", 0],
    ["^(\\d{1,3}\\.){3}\\d{1,3}$", 0],
    ["^(foo|bar)$", 0],
    ["^[a-z0-9]+(?:-[a-z0-9]+)*$", 3],
    [".*.*=", 3],
    ["^(ab)*(ab)*$", 2],
  ])("bounds %s by degree %i", ([source, degree]) => {
    const cost = estimateCost(source);
    expect(cost.factor).toBeLessThan(100);
    expect(cost.degree).toBe(degree);
  });

  test.for([
    "^(a+)+$",
    "(a|a)*b",
    "(a*)*",
    "^(?:a?){30}b",
    "(x+x+)+y",
    "^(-a+a+)*$",
    "^(?=a).*$",
    "(?<!a)b",
    "(a)\\1",
    "(?<n>a)\\k<n>",
    "(a|ab)+",
    "([^-]+-?)*",
    "(-[a-z-]+)*",
    "((-a+)*)*",
    "(?:a{1,20}){1,20}",
    "(.+\\.)+",
    "([\\w.]+\\.)+",
    "(\\u002d[-a]+)*",
    "(é[^a]+)*",
    "([^a]é+)*",
  ])("leaves %s to the guard", (source) => {
    expect(estimateCost(source).factor).toBe(Number.POSITIVE_INFINITY);
  });

  test("holds for generated patterns: no direct test of a string takes long", () => {
    const unit = fc.constantFrom(
      "a",
      "b",
      "[ab]",
      "[^a]",
      ".",
      "-",
      "\\w",
      "(?:a|b)",
      "(?:ab)",
      "(?:-a+)",
      "(?:a+-)",
      "(a?b)",
      "\\d",
    );
    const quantifier = fc.constantFrom("", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?");
    const sequence = fc
      .array(fc.tuple(unit, quantifier), { minLength: 1, maxLength: 5 })
      .map((parts) => parts.map((part) => part.join("")).join(""));
    const pattern = fc
      .tuple(fc.constantFrom("", "^"), sequence, quantifier, sequence)
      .map(([start, group, many, tail]) => `${start}(?:${group})${many}${tail}!$`);
    const text = fc
      .array(fc.constantFrom("a", "b", "-", "ab", "a-", "-a", "aa"), { minLength: 5, maxLength: 12 })
      .map((parts) => parts.join("").repeat(6).slice(0, 60));
    fc.assert(
      fc.property(pattern, text, (source, value) => {
        const { factor, degree } = estimateCost(source);
        if (factor * (value.length + 1) ** degree > 300_000) return;
        const regExp = new RegExp(source, "u");
        regExp.test("");
        expectQuick(() => regExp.test(value), 60, [source, value]);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("zod's patterns", () => {
  const pumps = ["a", "a.", "a-", "1", "1.", "1:", "-", "+", "a@", "aa==", "P1D", "Z", "00:", "'", "_"];
  const tails = ["", "!", "@", "@a", "a@a.", "=", "\n"];
  const schemas: readonly [string, z.ZodType][] = [
    ["email", z.email()],
    ["uuid", z.uuid()],
    ["base64", z.base64()],
    ["base64url", z.base64url()],
    ["ipv4", z.ipv4()],
    ["ipv6", z.ipv6()],
    ["cidrv4", z.cidrv4()],
    ["date", z.iso.date()],
    ["datetime", z.iso.datetime()],
    ["duration", z.iso.duration()],
  ];

  test.for(schemas)("%s takes little time on strings of a trusted length", ([, schema]) => {
    const { pattern } = z.toJSONSchema(schema);
    const regExp = new RegExp(String(pattern), "u");
    for (const pump of pumps) {
      for (const tail of tails) {
        const text = pump.repeat(320).slice(0, 320 - tail.length) + tail;
        expectQuick(() => regExp.test(text), 40, [pump, tail]);
      }
    }
  });

  test("need no guard in everyday values", () => {
    const compiled = compileSchema(z.toJSONSchema(z.object({ mail: z.email(), id: z.uuid(), at: z.iso.datetime() })));
    const value = {
      mail: "some.body+tag@mail.example.com",
      id: "7f3c1f1e-0b6f-4c8e-9a3e-2f7f1e0b6f4c",
      at: "2026-01-01T00:00:00Z",
    };
    const guarded = compileSchema({ pattern: "^(a+)+$" });
    // Three patterns without a guard take less time than one with it.
    const everydayMs = msPerRun(() => compiled.validate(value));
    const guardedMs = msPerRun(() => guarded.validate("aaa"));
    expect(everydayMs).toBeLessThan(guardedMs);
  });
});
