// Sends bytes that are not frames.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends garbage", {
  worker: `serve(() => socket.write(Buffer.alloc(100_000, 0xff)));`,
  codes: ["SANDBOX_CRASHED"],
});
