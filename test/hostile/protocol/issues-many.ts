// Sends half a million invalid issues, each of which zod would report. The host counts them before it parses them.
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
