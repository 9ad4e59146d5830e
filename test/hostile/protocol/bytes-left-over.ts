// Sends a frame whose parts end before the frame does. The remaining bytes could be misread.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a frame with bytes left over", {
  worker: `serve(({ seq }) => { const bytes = frame({ type: "preparing", seq }); bytes.writeUInt32LE(bytes.readUInt32LE(0) + 7, 0); socket.write(Buffer.concat([bytes, Buffer.alloc(7)])); });`,
  codes: ["SANDBOX_CRASHED"],
});
