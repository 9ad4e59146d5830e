// Exits in the middle of a frame. A partial result is not a result.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("dies in the middle of its result", {
  worker: `serve(({ seq }) => { send({ type: "preparing", seq }); send({ type: "started", seq }); const bytes = frame({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }, '"half of it"'); socket.end(bytes.subarray(0, bytes.length - 3), () => process.exit(0)); });`,
  codes: ["SANDBOX_CRASHED"],
});
