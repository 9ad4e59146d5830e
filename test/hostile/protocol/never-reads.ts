// Requests answers and never reads them, so that the host would have to buffer them all.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("requests answers that it never reads", {
  worker: `
    const question = JSON.stringify("x".repeat(4_000_000));
    serve(({ seq }) => {
      socket.pause();
      for (let id = 1; id <= 60; id += 1) send({ type: "capability", seq, requestId: id, name: "echo" }, question);
    });
  `,
  codes: ["SANDBOX_CRASHED"],
});
