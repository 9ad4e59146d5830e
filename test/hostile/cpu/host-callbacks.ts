// A loop of calls that leave the isolate. isolated-vm's own timeout does not count them, and the host cannot read as fast.
import { testAttack } from "../support.ts";

testAttack("a loop of calls that leave the isolate", {
  source: `export default (_, ctx) => { for (;;) { console.log(1); ctx.progress({ progress: 1 }); ctx.log('x').catch(() => {}); try { clearTimeout(setTimeout(() => {}, 1)); } catch {} } };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
