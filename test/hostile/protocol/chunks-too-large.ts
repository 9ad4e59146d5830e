// All chunks of a call together must not exceed the size limit of its output.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends larger chunks than its call may have", {
  worker: `serve(({ seq }) => flood(() => frame({ type: "chunks", seq }, JSON.stringify("x".repeat(60_000)))));`,
  limits: { outputBytes: 100_000 },
  stream: true,
  codes: ["SANDBOX_CRASHED", "CANCELLED"],
});
