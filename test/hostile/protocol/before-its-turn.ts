// Releases a call before its result is sent, then sends the result.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("releases a call that has not ended", {
  worker: `serve(({ seq }) => send({ type: "released", seq }));`,
  codes: ["SANDBOX_CRASHED"],
});
