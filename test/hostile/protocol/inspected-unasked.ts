// A worker that nobody has started for inspection offers an isolate to be inspected, and speaks for one.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("offers an isolate for inspection, unasked", {
  worker: `serve(({ seq }) => { send({ type: "inspect-open", seq }); });`,
  codes: ["SANDBOX_CRASHED"],
});

testWorkerAttack("speaks for an isolate that nobody inspects", {
  worker: `serve(({ seq }) => { send({ type: "inspected", seq }, ['{"method":"Debugger.paused","params":{}}']); });`,
  codes: ["SANDBOX_CRASHED"],
});
