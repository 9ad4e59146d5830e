// Reports that a call has left the main thread although the host did not send it there.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports that a call is parked that was not on the main thread", {
  worker: `serve(({ seq }) => { send({ type: "parked", seq, entries: 1 }); });`,
  codes: ["SANDBOX_CRASHED"],
});
