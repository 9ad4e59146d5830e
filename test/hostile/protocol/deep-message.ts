// Deep nesting must not overflow the stack of the parser.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a deeply nested message", {
  worker: `serve(() => send("[".repeat(60_000)));`,
  codes: ["SANDBOX_CRASHED"],
});
