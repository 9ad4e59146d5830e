// Compiled regular expressions and their parse trees are in memory zones that the heap limit does not count.
import { testAttack } from "../support.ts";

testAttack("regular expressions of giant classes", {
  source: `export default () => { const all = []; for (let n = 0; ; n += 1) { let body = ''; for (let c = 0; c < 4e3; c += 1) body += '\\\\u{' + (0x10000 + ((c * 7 + n) % 0x8000) * 2).toString(16) + '}'; const pattern = new RegExp('(?:[' + body + ']{0,9}){0,9}' + n, 'iu'); pattern.test('x\\ud83d\\ude00'); all.push(pattern); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
