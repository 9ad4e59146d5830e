// Exceeds the output limit of its call. A correct worker checks that limit itself, so the host stops trusting this process.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with 79 MB", {
  worker: `
    serve(({ seq }) => { ended(seq, "output", Buffer.alloc(79_000_000, 32)); send({ type: "released", seq }); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
