// Sends a capability request without its input.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("requests a capability without an input", {
  worker: `serve(({ seq }) => send({ type: "capability", seq, requestId: 1, name: "echo" }));`,
  codes: ["SANDBOX_CRASHED"],
  check: (_, served) => expect(served).toEqual([]),
});
