// Listeners that add listeners and dispatch again, from within a dispatch.
import { testAttack } from "../support.ts";

testAttack("a storm of events", {
  source: `export default () => { const target = new EventTarget(); const again = () => { target.addEventListener('x', () => again()); target.dispatchEvent(new Event('x')); }; for (;;) try { again(); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "TOOL_FAILED"],
});
