// A worker process may send chunks only of a call whose caller reads its output as a stream.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends chunks of a call that is not streamed", {
  worker: `serve(({ seq }) => { send({ type: "chunks", seq }, "1"); ended(seq, "output", "1"); });`,
  codes: ["SANDBOX_CRASHED"],
});

testWorkerAttack("reports streamed output for a call that is not streamed", {
  worker: `serve(({ seq }) => { ended(seq, "streamed", ""); send({ type: "released", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});

testWorkerAttack("sends chunks of a call that it was not given", {
  worker: `serve(({ seq }) => send({ type: "chunks", seq: seq + 1 }, "1"));`,
  stream: true,
  codes: ["SANDBOX_CRASHED"],
});
