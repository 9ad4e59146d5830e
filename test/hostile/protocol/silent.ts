// Takes the call and never answers.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("never answers", {
  worker: `serve(() => {});`,
  codes: ["TOOL_TIMEOUT"],
  timeoutMs: 300,
});
