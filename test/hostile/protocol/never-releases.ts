// Sends a result and keeps running. The host kills a process that does not release its call in time.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("keeps burning CPU after its result", {
  worker: `serve(({ seq }) => { ended(seq, "output", "1"); setImmediate(() => { for (;;); }); });`,
  codes: ["ok"],
});
