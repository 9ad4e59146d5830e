// Sends eight million brackets. The host checks the nesting before it parses.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with eight million brackets", {
  worker: `serve(({ seq }) => { ended(seq, "output", "[".repeat(8e6)); send({ type: "released", seq }); });`,
  codes: ["OUTPUT_INVALID"],
  dies: false,
});
