// Announces an output and sends no part that contains it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("ends with an output that it does not send", {
  worker: `serve(({ seq }) => { send({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
