// A million pending promises.
import { testAttack } from "../support.ts";

testAttack("promises without end", {
  source: `export default async () => { const all = []; for (;;) all.push(new Promise(() => {}).then(() => all)); };`,
  codes: ["MEMORY_LIMIT", "TOOL_TIMEOUT"],
  timeoutMs: 2_000,
});
