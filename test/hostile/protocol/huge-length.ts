// Claims a length of 4 GB. The host must not allocate memory for it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("claims a frame of 4 GB", {
  worker: `
    serve(() => { const head = Buffer.alloc(8); head.writeUInt32LE(0xffff_fff0, 0); socket.write(head); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
