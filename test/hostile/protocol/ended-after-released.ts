// Reuses the number of a call that has ended and whose result was delivered.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers a released call again", {
  worker: `serve((call) => { behave(call); setTimeout(() => ended(call.seq, "output", '"forged"'), 20); });`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe("served"),
});
