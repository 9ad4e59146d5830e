// Sends parts that the output does not reference: another output, and a code cache.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("ends with three outputs", {
  worker: `serve(({ seq }) => { send({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }, '"first"', '"second"', Buffer.alloc(1e6)); });`,
  codes: ["ok", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
  dies: false,
  check: (result) => {
    if (result.success) expect(outputOf(result)).toBe("first");
  },
});
