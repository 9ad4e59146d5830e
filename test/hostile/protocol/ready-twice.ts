// A worker process reports once that it is ready.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("is ready twice", {
  worker: `serve(() => send({ type: "ready", protocolVersion: 1 }));`,
  codes: ["SANDBOX_CRASHED"],
});
