// The new set methods trust the size and the keys of any set-like object.
import { testAttack } from "../support.ts";

testAttack("a union with an endless set", {
  source: `export default () => new Set([1]).isSupersetOf({ size: 0, has: () => true, keys: () => ({ next: () => ({ done: false, value: 1 }) }) });`,
  codes: ["TOOL_TIMEOUT"],
});
