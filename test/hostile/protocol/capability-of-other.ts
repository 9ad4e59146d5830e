// Sends a capability request for a call that does not run in this process.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("requests a capability for another call", {
  worker: `serve(({ seq }) => send({ type: "capability", seq: seq + 5, requestId: 1, name: "echo" }, "1"));`,
  codes: ["SANDBOX_CRASHED"],
  check: (_, served) => expect(served).toEqual([]),
});
