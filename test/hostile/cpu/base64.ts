// The prelude's atob and btoa over megabytes, in an endless loop.
import { testAttack } from "../support.ts";

testAttack("atob and btoa over megabytes", {
  source: `export default () => { const text = 'a'.repeat(6e6); for (;;) atob(btoa(text)); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
