// An own __proto__ key counts as an unknown field.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message with a __proto__ key", {
  worker: `serve(({ seq }) => send(\`{"type":"preparing","seq":\${seq},"__proto__":{"outcome":"output"}}\`));`,
  codes: ["SANDBOX_CRASHED"],
});
