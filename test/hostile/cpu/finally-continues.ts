// A finally block that jumps would swallow any error, but not the end of an isolate.
import { testAttack } from "../support.ts";

testAttack("a loop that catches, and whose finally continues", {
  source: `export default () => { forever: for (;;) { try { for (;;); } catch { continue forever; } finally { continue forever; } } };`,
  codes: ["TOOL_TIMEOUT"],
});
