// Sends one progress report of a megabyte.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports progress of a megabyte", {
  worker: `serve(({ seq }) => send({ type: "progress", seq }, JSON.stringify({ progress: 1, message: "x".repeat(1e6) })));`,
  codes: ["SANDBOX_CRASHED"],
});
