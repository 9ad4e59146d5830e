// A number that has been used up: the call it stood for is over, and its result is out.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers a call again that it has released", {
  worker: `serve((call) => { behave(call); setTimeout(() => ended(call.seq, "output", '"forged"'), 20); });`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe("served"),
});
