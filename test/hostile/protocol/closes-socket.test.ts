// The process lives on, and says nothing any more.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("closes its socket and lives on", {
  worker: `serve(() => { socket.destroy(); setInterval(() => {}, 1_000); });`,
  codes: ["SANDBOX_CRASHED"],
});
