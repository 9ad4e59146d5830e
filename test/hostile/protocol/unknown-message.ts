// A message of a kind that there is not, or with a field too many.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message with a field too many", {
  worker: `serve(({ seq }) => send({ type: "preparing", seq, please: "trust me" }));`,
  codes: ["SANDBOX_CRASHED"],
});
