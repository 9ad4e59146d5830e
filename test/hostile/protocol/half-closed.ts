// Closes its sending direction and keeps listening, so that no answer can arrive.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("closes only its own half of the socket", {
  worker: `serve(() => { socket.end(); setInterval(() => {}, 1_000); });`,
  codes: ["SANDBOX_CRASHED"],
});
