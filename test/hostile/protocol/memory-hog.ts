// V8 does not limit the buffers of a process. This one allocates all that it can within one call.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("allocates 1.5 GB", {
  worker: `serve(() => { const all = []; for (let n = 0; n < 96; n += 1) all.push(Buffer.alloc(2 ** 24, 1)); setInterval(() => all.length, 1_000); });`,
  codes: ["TOOL_TIMEOUT", "SANDBOX_CRASHED", "MEMORY_LIMIT"],
  timeoutMs: 800,
});
