// The worker process exits.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("exits in mid-call", {
  worker: `
    serve(({ seq }) => { send({ type: "preparing", seq }); send({ type: "started", seq }); socket.end(() => process.exit(0)); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
