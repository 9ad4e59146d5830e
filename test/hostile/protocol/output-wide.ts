// Sends the largest number of values that fits into eight megabytes.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with two and a half million empty arrays", {
  worker: `serve(({ seq }) => { ended(seq, "output", "[" + "[],".repeat(2_600_000) + "1]"); send({ type: "released", seq }); });`,
  codes: ["ok", "OUTPUT_TOO_LARGE", "OUTPUT_INVALID"],
  dies: false,
});
