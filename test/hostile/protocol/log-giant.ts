// Sends one log line that exceeds the byte limit of all lines together.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a log line of 60 MB", {
  worker: `
    serve(({ seq }) => send({ type: "log", seq, level: "info", time: 1 }, Buffer.alloc(60_000_000, 120)));
  `,
  codes: ["SANDBOX_CRASHED"],
});
