// A timer of a call that has ended must not run. A microtask that is queued before the result delays it.
import { testAttack } from "../support.ts";

testAttack("loops queued behind the result", {
  source: `export default () => { setTimeout(() => { for (;;); }, 0); queueMicrotask(() => setTimeout(() => { for (;;); }, 0)); return 1; };`,
  codes: ["ok"],
});
