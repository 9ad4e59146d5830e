// The largest allowed number of timers, each of which fires at once and starts again.
import { testAttack } from "../support.ts";

testAttack("a storm of timers", {
  source: `export default () => { for (let n = 0; n < 900; n += 1) setInterval(() => { for (let i = 0; i < 1e5; i += 1); }, 0); return new Promise(() => {}); };`,
  codes: ["TOOL_TIMEOUT"],
});
