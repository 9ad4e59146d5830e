// Lines of a call that is over belong to nobody.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("logs after the end of its call", {
  worker: `
    serve(({ seq }) => { ended(seq, "output", "1"); send({ type: "released", seq }); send({ type: "log", seq, level: "info", time: 1 }, "late"); });
  `,
  codes: ["ok"],
  check: (result) => expect(result.logs).toEqual([]),
});
