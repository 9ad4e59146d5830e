// An error of 39 million values must not block the host.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with an error of many values", {
  worker: `
    serve(({ seq }) => { ended(seq, "thrown", \`[\${"1,".repeat(39_000_000)}1]\`); send({ type: "released", seq }); });
  `,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
