// Inputs of a capability are hostile text: no JSON, too deep, with a __proto__ key, none at all.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("asks with inputs that are no JSON", {
  worker: `serve((call) => { [ "{a:", "[".repeat(9_000), '{"__proto__":{"a":1}}', "", "\\\\ud800" ].forEach((text, n) => send({ type: "capability", seq: call.seq, requestId: n + 1, name: "echo" }, text)); setTimeout(() => behave(call), 50); });`,
  codes: ["ok"],
  dies: false,
  check: (_, served) => expect(served).toEqual([]),
});
