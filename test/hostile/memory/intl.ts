// V8 does not count ICU memory: 3.9 GB were measured in ten seconds.
import { testAttack } from "../support.ts";

testAttack("Intl.DateTimeFormat without end", {
  source: `export default async () => { const all = []; for (;;) all.push(new Intl.DateTimeFormat('en', { timeZone: 'Asia/Tokyo' })); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
});
