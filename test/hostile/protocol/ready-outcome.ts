// Reports the outcome of a load for a call. It is neither a result nor an error.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("ends its call as if it had only been loaded", {
  worker: `serve(({ seq }) => { ended(seq, "ready", "null"); send({ type: "released", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
