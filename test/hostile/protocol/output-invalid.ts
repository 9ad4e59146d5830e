// Output is untrusted text until the host has parsed it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with invalid JSON", {
  worker: `serve(({ seq }) => { ended(seq, "output", "{a:"); send({ type: "released", seq }); });`,
  codes: ["OUTPUT_INVALID"],
  dies: false,
});
