// A capability's name is short: one of 60 KB is a message of the largest size that there is.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("asks for a capability of 60 KB", {
  worker: `serve(({ seq }) => send({ type: "capability", seq, requestId: 1, name: "x".repeat(60_000) }, "1"));`,
  codes: ["SANDBOX_CRASHED"],
  check: (_, served) => expect(served).toEqual([]),
});
