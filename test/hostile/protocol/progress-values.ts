// Reports that are no reports: the caller hears of none, and the call goes on.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports progress that is none", {
  worker: `serve((call) => { for (const text of ["NaN", '{"progress":1e999}', '{"progress":"1"}', '{"progress":1,"__proto__":{}}', "[]", ""]) send({ type: "progress", seq: call.seq }, text); behave(call); });`,
  codes: ["ok"],
  dies: false,
});
