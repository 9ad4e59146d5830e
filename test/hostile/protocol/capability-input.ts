// Capability inputs are hostile text: invalid JSON, too deeply nested, with a __proto__ key, or empty.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends capability inputs that are not JSON", {
  worker: `serve((call) => { [ "{a:", "[".repeat(9_000), '{"__proto__":{"a":1}}', "", "\\\\ud800" ].forEach((text, n) => send({ type: "capability", seq: call.seq, requestId: n + 1, name: "echo" }, text)); setTimeout(() => behave(call), 50); });`,
  codes: ["ok"],
  dies: false,
  check: (_, served) => expect(served).toEqual([]),
});
