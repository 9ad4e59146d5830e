// Numbers that JSON can write and no double can hold.
import { describe, expect, test } from "vitest";
import { holdsInfinity } from "../../src/host/finite.ts";

const check = (text: string): boolean => holdsInfinity(JSON.parse(text), text);

describe("holdsInfinity()", () => {
  test.for(["1e309", "-1E400", '{"a":[0,{"b":1e+999}]}', "9".repeat(400), `[${"1".repeat(310)}.5]`])(
    "finds one in %s",
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
  ])("finds none in %s", (text) => {
    expect(check(text)).toBe(false);
  });
});
