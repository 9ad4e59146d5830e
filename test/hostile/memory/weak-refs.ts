// V8 keeps the target of a new WeakRef alive until the end of the job, in a list outside any object.
import { testAttack } from "../support.ts";

testAttack("WeakRefs in a job that never ends", {
  source: `export default () => { for (;;) new WeakRef(new Array(1e4).fill(1.5)).deref(); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
