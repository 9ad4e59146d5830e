// Deep nesting must not reach the stack of whoever parses it.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a deeply nested message", {
  worker: `serve(() => send("[".repeat(60_000)));`,
  codes: ["SANDBOX_CRASHED"],
});
