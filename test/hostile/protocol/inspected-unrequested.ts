// A worker process that was not started for inspection offers an isolate for inspection, and sends inspector messages.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("offers an isolate for inspection without a request", {
  worker: `serve(({ seq }) => { send({ type: "inspect-open", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
});

testWorkerAttack("sends inspector messages for an isolate that is not inspected", {
  worker: `serve(({ seq }) => { send({ type: "inspected", seq }, ['{"method":"Debugger.paused","params":{}}']); });`,
  codes: ["SANDBOX_CRASHED"],
});
