// Sends progress reports faster than the caller reads them.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports progress without end", {
  worker: `serve(({ seq }) => flood(() => frame({ type: "progress", seq }, '{"progress":1}')));`,
  codes: ["SANDBOX_CRASHED"],
});
