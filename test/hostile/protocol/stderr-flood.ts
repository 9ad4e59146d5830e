// The other descriptors carry diagnostics. The host must not read a flood of them forever.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("writes to stderr without end", {
  worker: `
    serve(() => { const chunk = Buffer.alloc(65_536, 120); const more = () => { while (process.stderr.write(chunk)); process.stderr.once("drain", more); }; more(); });
  `,
  codes: ["TOOL_TIMEOUT", "SANDBOX_CRASHED"],
  timeoutMs: 500,
});
