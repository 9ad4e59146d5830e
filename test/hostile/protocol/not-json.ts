// A frame whose message is not JSON.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message that is not JSON", {
  worker: `serve(() => send("{type:ended}"));`,
  codes: ["SANDBOX_CRASHED"],
});
