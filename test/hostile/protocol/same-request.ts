// Two requests under one number, and one under the highest there is: each is answered once, to this call alone.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("asks twice under one number", {
  worker: `serve((call) => { for (const requestId of [7, 7, Number.MAX_SAFE_INTEGER]) send({ type: "capability", seq: call.seq, requestId, name: "echo" }, "1"); setTimeout(() => behave(call), 50); });`,
  codes: ["ok"],
  dies: false,
  check: (_, served) => expect(served).toEqual(["evil:1", "evil:1", "evil:1"]),
});
