// A timer of a call that is over must not run; a microtask in front of the result holds it up.
import { testAttack } from "../support.ts";

testAttack("loops queued behind the result", {
  source: `export default () => { setTimeout(() => { for (;;); }, 0); queueMicrotask(() => setTimeout(() => { for (;;); }, 0)); return 1; };`,
  codes: ["ok"],
});
