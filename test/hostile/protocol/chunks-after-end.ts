// A call that has ended has nothing more to say.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends chunks after the end of their call", {
  worker: `serve(({ seq }) => { ended(seq, "output", '"end"'); send({ type: "chunks", seq }, "1"); });`,
  stream: true,
  codes: ["ok"],
});
