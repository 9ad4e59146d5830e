// It passes its memory by a little and is done: between two looks of the host's, and then nothing runs in it that would be looked at.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("is past its memory as its call ends", {
  worker: `const kept = [];
serve((call) => {
  const grow = () => {
    kept.push(Buffer.alloc(4 * 2 ** 20, 1));
    if (kept.length < 38) setImmediate(grow);
    else behave(call);
  };
  grow();
});`,
  codes: ["ok", "MEMORY_LIMIT"],
  timeoutMs: 10_000,
  limits: { memoryMiB: 16 },
});
