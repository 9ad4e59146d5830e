// Sends stream chunks of a call that has ended.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends chunks after the end of their call", {
  worker: `serve(({ seq }) => { ended(seq, "output", '"end"'); send({ type: "chunks", seq }, "1"); });`,
  stream: true,
  codes: ["ok"],
});
