// Builtins related to indexOf, which walk the length that a plain object claims. None of them checks for interrupts.
import { testAttack } from "../support.ts";

const WALKS: readonly [name: string, call: string][] = [
  ["lastIndexOf", "lastIndexOf.call(huge, 1)"],
  ["fill", "fill.call(huge, 1, 2 ** 52)"],
  ["copyWithin", "copyWithin.call(huge, 0, 2 ** 40)"],
  ["join", "join.call({ length: 2 ** 32 - 1 }, '')"],
];

for (const [name, call] of WALKS) {
  testAttack(`${name} over a claimed length`, {
    source: `export default () => { const huge = { length: 2 ** 53 - 1 }; Array.prototype.${call}; };`,
    codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "TOOL_FAILED"],
    timeoutMs: 300,
  });
}
