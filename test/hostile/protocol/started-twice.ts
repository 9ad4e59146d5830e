// Sends protocol messages in an invalid order.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("starts a call twice", {
  worker: `
    serve(({ seq }) => { send({ type: "preparing", seq }); send({ type: "started", seq }); send({ type: "started", seq }); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
