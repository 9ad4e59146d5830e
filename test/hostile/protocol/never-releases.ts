// A result, and then it goes on: what is not released in time is killed.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("keeps burning CPU after its result", {
  worker: `serve(({ seq }) => { ended(seq, "output", "1"); setImmediate(() => { for (;;); }); });`,
  codes: ["ok"],
});
