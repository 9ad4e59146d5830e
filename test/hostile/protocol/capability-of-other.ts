// A request in the name of another call: there is none in this process.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("asks in the name of another call", {
  worker: `serve(({ seq }) => send({ type: "capability", seq: seq + 5, requestId: 1, name: "echo" }, "1"));`,
  codes: ["SANDBOX_CRASHED"],
  check: (_, served) => expect(served).toEqual([]),
});
