// The guest's replacer returns one more level each time that JSON.stringify calls it.
import { testAttack } from "../support.ts";

testAttack("a replacer that never runs out of keys", {
  source: `export default () => { for (;;) try { JSON.stringify({}, (key, value) => ({ a: 1, b: {} }), 10); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED"],
});
