// Sends few log lines of a megabyte each, because the host must also count bytes.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("writes a thousand log lines of a megabyte", {
  worker: `
    const line = "x".repeat(1_000_000);
    serve(({ seq }) => flood(() => frame({ type: "log", seq, level: "info", time: 0 }, line)));
  `,
  codes: ["SANDBOX_CRASHED"],
});
