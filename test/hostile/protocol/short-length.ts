// Claims a length that is too small for a frame.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("claims a frame of no bytes", {
  worker: `serve(() => socket.write(Buffer.alloc(64)));`,
  codes: ["SANDBOX_CRASHED"],
});
