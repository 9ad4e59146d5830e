// Generators that delegate to themselves, so that the caller waits for a value that never arrives.
import { testAttack } from "../support.ts";

testAttack("yield* without end", {
  source: `function* forward() { yield* forward.call(); }
const endless = { [Symbol.iterator]: () => ({ next: () => ({ done: false, get value() { return undefined; } }), return() { for (;;); } }) };
export default () => { for (;;) try { for (const value of (function* () { yield* endless; })()) if (value !== undefined) break; } catch {} };`,
  codes: ["TOOL_TIMEOUT"],
});
