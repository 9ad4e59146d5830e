// More bytes than an output may have, in a frame that just fits.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with 79 MB", {
  worker: `
    serve(({ seq }) => { ended(seq, "output", Buffer.alloc(79_000_000, 32)); send({ type: "released", seq }); });
  `,
  codes: ["OUTPUT_TOO_LARGE"],
  dies: false,
});
