// A length below what a frame needs.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("claims a frame of no bytes", {
  worker: `serve(() => socket.write(Buffer.alloc(64)));`,
  codes: ["SANDBOX_CRASHED"],
});
