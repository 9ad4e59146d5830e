// Capability names are short. A name of 60 KB fits in the largest message that the protocol allows.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("requests a capability with a name of 60 KB", {
  worker: `serve(({ seq }) => send({ type: "capability", seq, requestId: 1, name: "x".repeat(60_000) }, "1"));`,
  codes: ["SANDBOX_CRASHED"],
  check: (_, served) => expect(served).toEqual([]),
});
