// All that can be large travels beside a message: its own JSON has a cap.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message of 10 MB", {
  worker: `serve(({ seq }) => send({ type: "preparing", seq, pad: "x".repeat(1e7) }));`,
  codes: ["SANDBOX_CRASHED"],
});
