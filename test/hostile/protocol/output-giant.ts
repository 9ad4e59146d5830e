// More bytes than its call may answer with: a worker of ours counts them itself, so this one is not believed any more.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with 79 MB", {
  worker: `
    serve(({ seq }) => { ended(seq, "output", Buffer.alloc(79_000_000, 32)); send({ type: "released", seq }); });
  `,
  codes: ["SANDBOX_CRASHED"],
});
