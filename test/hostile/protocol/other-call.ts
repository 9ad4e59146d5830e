// Answers a call that this process was never given.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers another call", {
  worker: `serve(({ seq }) => ended(seq + 1, "output", '"forged"'));`,
  codes: ["SANDBOX_CRASHED"],
});
