// Like array-growth, while the definition is extracted.
import { testAttack } from "../support.ts";

testAttack("an array without end at the top level", {
  source: `const all = []; for (;;) all.push(new Array(1e4).fill(1.5));
export default () => 1;`,
  codes: ["MEMORY_LIMIT"],
  limits: { timeoutMs: 60_000 },
});
