// Leaving a loop or a pattern calls the iterator's return(), which is guest code that also runs while an error propagates.
import { testAttack } from "../support.ts";

testAttack("an iterator whose return loops", {
  source: `export default () => { const [first] = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }), return() { for (;;); } }) }; return first; };`,
  codes: ["TOOL_TIMEOUT"],
});
