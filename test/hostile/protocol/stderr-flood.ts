// Its other descriptors are for diagnosis: a flood of them is not read for ever.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("writes to stderr without end", {
  worker: `
    serve(() => { const chunk = Buffer.alloc(65_536, 120); const more = () => { while (process.stderr.write(chunk)); process.stderr.once("drain", more); }; more(); });
  `,
  codes: ["TOOL_TIMEOUT", "SANDBOX_CRASHED"],
  timeoutMs: 500,
});
