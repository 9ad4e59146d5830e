// Sends a message of an unknown kind, or with an unknown field.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message with an unknown field", {
  worker: `serve(({ seq }) => send({ type: "preparing", seq, please: "trust me" }));`,
  codes: ["SANDBOX_CRASHED"],
});
