// Each microtask queues two more: the queue doubles, and the thread never leaves it.
import { testAttack } from "../support.ts";

testAttack("microtasks that double", {
  source: `export default () => { const more = () => { queueMicrotask(more); queueMicrotask(more); }; more(); return new Promise(() => {}); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
