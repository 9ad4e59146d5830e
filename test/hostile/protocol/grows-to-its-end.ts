// Slightly exceeds its memory limit between two checks of the host, and then runs no call that would be checked.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("exceeds its memory limit as its call ends", {
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
  limits: { memoryMiB: 16 },
});
