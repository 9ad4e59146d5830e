// Large data travels in attachments, so the JSON of a message itself has a size limit.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message of 10 MB", {
  worker: `serve(({ seq }) => send({ type: "preparing", seq, pad: "x".repeat(1e7) }));`,
  codes: ["SANDBOX_CRASHED"],
});
