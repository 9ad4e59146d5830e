// Sends a frame without parts, and a frame of only the length prefix.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a frame without a message", {
  worker: `serve(() => { const head = Buffer.alloc(8); head.writeUInt32LE(4, 0); socket.write(head); const next = Buffer.alloc(12); next.writeUInt32LE(8, 0); socket.write(next); });`,
  codes: ["SANDBOX_CRASHED"],
});
