// toJSON may return different values at each call, but the text that leaves the isolate is written once.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("an output that changes each time it is read", {
  source: `export default async () => { let n = 0; return { toJSON: () => ({ get a() { n += 1; return n; }, b: { toJSON: () => 'b' + n } }) }; };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual({ a: 1, b: "b1" }),
});
