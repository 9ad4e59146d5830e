// A call that has ended before it was released, released before it has ended.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("releases a call that has not ended", {
  worker: `serve(({ seq }) => send({ type: "released", seq }));`,
  codes: ["SANDBOX_CRASHED"],
});
