// The host denies capabilities that were not granted, regardless of what the worker process checks.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("requests capabilities that were not granted", {
  worker: `let answers = 0;
serve(({ seq }) => {
  for (const name of ["fs", "secrets", "__proto__", "constructor", "toString"]) send({ type: "capability", seq, requestId: (answers += 1), name }, "{}");
  setTimeout(() => { ended(seq, "output", "1"); send({ type: "released", seq }); }, 50);
});`,
  codes: ["ok"],
  dies: false,
  check: (_, served) => expect(served).toEqual([]),
});
