// Leaving a loop or a pattern calls the iterator's own return(): that is guest code, too, and it runs on the way out of an error.
import { testAttack } from "../support.ts";

testAttack("an iterator whose return loops", {
  source: `export default () => { const [first] = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }), return() { for (;;); } }) }; return first; };`,
  codes: ["TOOL_TIMEOUT"],
});
