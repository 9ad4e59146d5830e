// Chunks belong to a call whose chunks somebody reads.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends chunks of a call that is not read as it comes", {
  worker: `serve(({ seq }) => { send({ type: "chunks", seq }, "1"); ended(seq, "output", "1"); });`,
  codes: ["SANDBOX_CRASHED"],
});

testWorkerAttack("says that the chunks of such a call were its output", {
  worker: `serve(({ seq }) => { ended(seq, "streamed", ""); send({ type: "released", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});

testWorkerAttack("sends chunks of a call that it was not given", {
  worker: `serve(({ seq }) => send({ type: "chunks", seq: seq + 1 }, "1"));`,
  stream: true,
  codes: ["SANDBOX_CRASHED"],
});
