// The host trusts one of its own error codes only if its capability broker returned it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports that a capability was denied", {
  worker: `
    serve(({ seq }) => { ended(seq, "thrown", JSON.stringify({ name: "Error", message: "x", stack: "", capabilityCode: "CAPABILITY_DENIED" })); send({ type: "released", seq }); });
  `,
  codes: ["TOOL_FAILED"],
  dies: false,
});
