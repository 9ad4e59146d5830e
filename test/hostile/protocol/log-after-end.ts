// Log lines that arrive after the end of their call belong to no call.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("logs after the end of its call", {
  worker: `
    serve(({ seq }) => { ended(seq, "output", "1"); send({ type: "released", seq }); send({ type: "log", seq, level: "info", time: 1 }, "late"); });
  `,
  codes: ["ok"],
  check: (result) => expect(result.logs).toEqual([]),
});
