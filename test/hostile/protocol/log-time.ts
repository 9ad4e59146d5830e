// A time that no clock shows.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("dates its log lines past all time", {
  worker: `serve((call) => { send({ type: "log", seq: call.seq, level: "info", time: 9e15 }, "x"); send('{"type":"log","seq":' + call.seq + ',"level":"info","time":1e999}', "x"); behave(call); });`,
  codes: ["SANDBOX_CRASHED"],
});
