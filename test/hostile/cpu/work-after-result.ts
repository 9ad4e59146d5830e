// The result is ready and the work continues: the isolate must end with the call.
import { testAttack } from "../support.ts";

testAttack("microtasks that go on after the result", {
  source: `export default () => { (async () => { for (;;) await null; })(); return 1; };`,
  codes: ["TOOL_TIMEOUT", "ok"],
});
