// Nothing of V8 limits a process's buffers: it takes all it can, within one call.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("takes a gigabyte and a half", {
  worker: `serve(() => { const all = []; for (let n = 0; n < 96; n += 1) all.push(Buffer.alloc(2 ** 24, 1)); setInterval(() => all.length, 1_000); });`,
  codes: ["TOOL_TIMEOUT", "SANDBOX_CRASHED", "MEMORY_LIMIT"],
  timeoutMs: 800,
});
