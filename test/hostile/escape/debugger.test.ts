// With no debugger attached the statement does nothing; with one, it would stop the worker's thread for good.
import { testAttack } from "../support.ts";

testAttack("a debugger statement in a loop, and V8's own console", {
  source: `export default () => { for (let n = 0; n < 1e5; n += 1) { debugger; } return [typeof console.profile, typeof console.memory, typeof console.context, typeof globalThis.inspector]; };`,
  codes: ["ok"],
});
