// Sends two requests with the same number, and one with the largest number. The host answers each once, to this call only.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends two requests with the same number", {
  worker: `serve((call) => { for (const requestId of [7, 7, Number.MAX_SAFE_INTEGER]) send({ type: "capability", seq: call.seq, requestId, name: "echo" }, "1"); setTimeout(() => behave(call), 50); });`,
  codes: ["ok"],
  dies: false,
  check: (_, served) => expect(served).toEqual(["evil:1", "evil:1", "evil:1"]),
});
