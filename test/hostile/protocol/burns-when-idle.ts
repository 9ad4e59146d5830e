// It has ended and released its call, as it should, and then burns CPU that nobody has asked for.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("burns CPU after it has released its call", {
  worker: `serve((call) => { behave(call); setImmediate(() => setImmediate(() => { for (;;); })); });`,
  codes: ["ok"],
});
