// Reports an impossible cost that is still a number. Only this tenant is charged.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports a cost of three hundred thousand years", {
  worker: `serve(({ seq }) => { send({ type: "ended", seq, outcome: "output", phase: "execute", usage: { ...USAGE, cpuMs: 9e15, heapBytes: 9e15 }, released: true }, "1"); });`,
  codes: ["ok", "SANDBOX_CRASHED"],
  dies: false,
  check: (result) => expect(Number.isFinite(result.usage.cpuMs)).toBe(true),
});
