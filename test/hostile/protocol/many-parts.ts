// Claims more parts than any message has, with lengths that pass the end of the frame.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("claims parts past the end of its frame", {
  worker: `
    serve(() => { const head = Buffer.alloc(20); head.writeUInt32LE(16, 0); head.writeUInt32LE(2, 4); head.writeUInt32LE(5, 8); head.writeUInt32LE(0xffff_ffff, 12); socket.write(head); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
