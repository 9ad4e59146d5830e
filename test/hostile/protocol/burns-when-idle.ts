// Ends and releases its call correctly, then uses CPU time while no call runs.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("burns CPU after it has released its call", {
  worker: `serve((call) => { behave(call); setImmediate(() => setImmediate(() => { for (;;); })); });`,
  codes: ["ok"],
});
