// Numbers that no double can hold: JSON.parse makes Infinity of them, which is no JSON.
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
