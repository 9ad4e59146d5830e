// Reports outcomes that only the host can cause, or that belong to another kind of command.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports that its call was cancelled without a request", {
  worker: `serve(({ seq }) => { ended(seq, "cancelled", ""); send({ type: "released", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
