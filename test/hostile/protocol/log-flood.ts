// Sends more log lines than its call may write.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("logs without end", {
  worker: `serve(({ seq }) => flood(() => frame({ type: "log", seq, level: "info", time: 1 }, "line")));`,
  codes: ["SANDBOX_CRASHED"],
  check: (result) => expect(result.logs.length).toBeLessThanOrEqual(1_000),
});
