// It takes the call and never reads again.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("never reads again", {
  worker: `serve(() => { for (;;); });`,
  codes: ["TOOL_TIMEOUT"],
  timeoutMs: 300,
});
