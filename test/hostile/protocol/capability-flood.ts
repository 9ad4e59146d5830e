// Makes more requests than the call may make. The host counts them and kills the process.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("requests a capability without end", {
  worker: `let id = 0;
serve(({ seq }) => flood(() => frame({ type: "capability", seq, requestId: (id += 1), name: "echo" }, "1")));`,
  codes: ["SANDBOX_CRASHED"],
  limits: { maxCapabilityCalls: 20 },
  check: (_, served) => expect(served.length).toBeLessThanOrEqual(20),
});
