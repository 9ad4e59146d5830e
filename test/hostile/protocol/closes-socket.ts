// The process stays alive with its socket closed. Where a wrapper process also holds the socket open, only the silence reveals it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("closes its socket and lives on", {
  worker: `serve(() => { socket.destroy(); setInterval(() => {}, 1_000); });`,
  codes: ["SANDBOX_CRASHED", "TOOL_TIMEOUT"],
});
