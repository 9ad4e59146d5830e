// Sends a log time outside the range of `Date`.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends log lines with a time outside the range of Date", {
  worker: `serve((call) => { send({ type: "log", seq: call.seq, level: "info", time: 9e15 }, "x"); send('{"type":"log","seq":' + call.seq + ',"level":"info","time":1e999}', "x"); behave(call); });`,
  codes: ["SANDBOX_CRASHED"],
});
