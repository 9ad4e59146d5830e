// SIGSTOP is a silence that no handler of its own can end; the host sees it in the process table, and SIGKILL reaches it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("stops itself", {
  worker: `serve(() => { process.kill(process.pid, "SIGSTOP"); });`,
  codes: ["SANDBOX_CRASHED"],
});
