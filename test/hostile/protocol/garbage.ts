// Not frames at all.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends garbage", {
  worker: `serve(() => socket.write(Buffer.alloc(100_000, 0xff)));`,
  codes: ["SANDBOX_CRASHED"],
});
