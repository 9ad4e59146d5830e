// A process is ready once.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("is ready twice", {
  worker: `serve(() => send({ type: "ready", protocolVersion: 1 }));`,
  codes: ["SANDBOX_CRASHED"],
});
