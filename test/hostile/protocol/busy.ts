// Takes the call and never reads from its socket again.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("never reads again", {
  worker: `serve(() => { for (;;); });`,
  codes: ["TOOL_TIMEOUT"],
  timeoutMs: 300,
});
