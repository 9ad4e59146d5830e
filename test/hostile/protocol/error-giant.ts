// An error of 79 MB of JSON must not block the host.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with an error of 79 MB", {
  worker: `
    serve(({ seq }) => { ended(seq, "thrown", \`{"name":"x","message":"\${"[],".repeat(26_000_000)}","stack":""}\`); send({ type: "released", seq }); });
  `,
  codes: ["SANDBOX_CRASHED"],
  dies: false,
});
