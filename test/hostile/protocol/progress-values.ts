// Sends invalid progress reports. The caller receives none of them, and the call continues.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends invalid progress reports", {
  worker: `serve((call) => { for (const text of ["NaN", '{"progress":1e999}', '{"progress":"1"}', '{"progress":1,"__proto__":{}}', "[]", ""]) send({ type: "progress", seq: call.seq }, text); behave(call); });`,
  codes: ["ok"],
  dies: false,
});
