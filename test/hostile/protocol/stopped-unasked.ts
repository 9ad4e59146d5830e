// Ends that only the host can have caused, or that belong to another kind of order.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("says that its call was cancelled, unasked", {
  worker: `serve(({ seq }) => { ended(seq, "cancelled", ""); send({ type: "released", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
