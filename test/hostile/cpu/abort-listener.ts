// ctx.signal aborts when the call ends. Its listeners are the last guest code of a call and run after the result.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("an abort listener that loops after the result", {
  source: `export default (_, ctx) => { ctx.signal.addEventListener('abort', () => { for (;;); }); return 1; };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe(1),
});
