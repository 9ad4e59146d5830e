// Begins a frame that exceeds every frame that its call may send.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("begins a frame of 70 MB and stops", {
  worker: `
    serve(() => { const head = Buffer.alloc(8); head.writeUInt32LE(70_000_000, 0); head.writeUInt32LE(1, 4); socket.write(head); socket.write(Buffer.alloc(1_000_000)); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
