// A length that merely claims 4 GB: nothing may be allocated for it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("claims a frame of 4 GB", {
  worker: `
    serve(() => { const head = Buffer.alloc(8); head.writeUInt32LE(0xffff_fff0, 0); socket.write(head); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
