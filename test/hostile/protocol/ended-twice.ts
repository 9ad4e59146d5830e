// Sends two results for one call. The first one counts, and the host kills the process.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("ends a call twice", {
  worker: `serve(({ seq }) => { ended(seq, "output", "1"); ended(seq, "output", "2"); });`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe(1),
});
