// The process lives on, and says nothing any more: where a wrapper holds the socket open beside it, only its silence tells.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("closes its socket and lives on", {
  worker: `serve(() => { socket.destroy(); setInterval(() => {}, 1_000); });`,
  codes: ["SANDBOX_CRASHED", "TOOL_TIMEOUT"],
});
