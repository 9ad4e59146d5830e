// Hides a __proto__ key deep in an output that did not pass through the guest prelude.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with a hidden __proto__ key", {
  worker: `serve(({ seq }) => { ended(seq, "output", '{"a":[{"\\\\u005f_proto\\\\u005F_" : {"isAdmin":true}}]}'); send({ type: "released", seq }); });`,
  codes: ["OUTPUT_INVALID"],
  dies: false,
});
