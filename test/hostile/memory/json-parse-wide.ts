// One builtin turns a text of megabytes into an array of many times its size.
import { testAttack } from "../support.ts";

testAttack("JSON.parse of wide texts, kept", {
  source: `export default () => { const text = '[' + '{"a":[]},'.repeat(1e6) + '0]'; const all = []; for (;;) all.push(JSON.parse(text)); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
