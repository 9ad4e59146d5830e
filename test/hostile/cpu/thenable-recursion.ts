// A thenable that resolves with the next one: each step is one promise job, and no guest code awaits.
import { testAttack } from "../support.ts";

testAttack("thenables that resolve with thenables", {
  source: `const next = () => ({ then(resolve) { resolve(next()); } });
export default () => next();`,
  codes: ["TOOL_TIMEOUT"],
});
