// A code of ours is believed only if the broker really gave it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("says that a capability was denied", {
  worker: `
    serve(({ seq }) => { ended(seq, "thrown", JSON.stringify({ name: "Error", message: "x", stack: "", capabilityCode: "CAPABILITY_DENIED" })); send({ type: "released", seq }); });
  `,
  codes: ["TOOL_FAILED"],
  dies: false,
});
