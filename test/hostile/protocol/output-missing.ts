// An output that is said to be there, and no part that holds it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("ends with an output that it does not send", {
  worker: `serve(({ seq }) => { send({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
