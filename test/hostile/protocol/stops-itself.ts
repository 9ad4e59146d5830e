// Stops itself with SIGSTOP, so that no handler in the process can run. The host detects it in the process table and sends SIGKILL.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("stops itself", {
  worker: `serve(() => { process.kill(process.pid, "SIGSTOP"); });`,
  codes: ["SANDBOX_CRASHED"],
});
