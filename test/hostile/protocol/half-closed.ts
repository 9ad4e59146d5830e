// It closes its own direction and goes on listening: no answer can come any more.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("closes only its own half of the socket", {
  worker: `serve(() => { socket.end(); setInterval(() => {}, 1_000); });`,
  codes: ["SANDBOX_CRASHED"],
});
