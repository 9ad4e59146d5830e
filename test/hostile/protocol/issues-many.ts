// Half a million issues that are none: zod would report each. They are counted before they are looked at.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("answers with half a million issues", {
  worker: `
    serve(({ seq }) => { ended(seq, "input", \`[\${"1,".repeat(500_000)}1]\`); send({ type: "released", seq }); });
  `,
  codes: ["PARAM_INVALID"],
  dies: false,
  check: (result) => expect(JSON.stringify(result).length).toBeLessThan(2_000),
});
