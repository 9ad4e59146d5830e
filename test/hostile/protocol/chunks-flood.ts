// Sends more chunks at a time than the host has requested.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("floods a stream with chunks", {
  worker: `serve(({ seq }) => flood(() => frame({ type: "chunks", seq }, "1\\n2\\n3")));`,
  stream: true,
  codes: ["SANDBOX_CRASHED", "CANCELLED"],
});

testWorkerAttack("sends a frame of nothing but line ends", {
  worker: `serve(({ seq }) => send({ type: "chunks", seq }, "\\n".repeat(4e6)));`,
  stream: true,
  codes: ["SANDBOX_CRASHED", "CANCELLED"],
});
