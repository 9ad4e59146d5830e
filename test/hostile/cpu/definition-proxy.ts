// The default export is a proxy: even reading execute runs its traps.
import { testAttack } from "../support.ts";

testAttack("a definition that is a proxy whose traps loop", {
  source: `const loop = () => { for (;;); };
export default new Proxy({}, { has: loop, get: loop, ownKeys: loop, getPrototypeOf: loop });`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
