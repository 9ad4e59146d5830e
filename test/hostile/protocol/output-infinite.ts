// Sends numbers that exceed every double. JSON.parse turns them into Infinity, which JSON cannot represent.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with numbers past every double", {
  worker: `serve(({ seq }) => { ended(seq, "output", "[1e999,-1e999]"); send({ type: "released", seq }); });`,
  codes: ["OUTPUT_INVALID", "ok"],
  dies: false,
  check: (result) => {
    if (result.success) expect(JSON.stringify(result.output)).not.toContain("null");
  },
});
