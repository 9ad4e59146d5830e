// Setters on Object.prototype intercept every plain assignment of the code in the same realm.
import { testAttack } from "../support.ts";

testAttack("a polluted Object.prototype", {
  source: `for (const key of ['success', 'error', 'type', 'seq', 'outcome', 'text', 'value', 'ok', 'code', 'message', 'name', 'stack', 'level', '0', '1']) Object.defineProperty(Object.prototype, key, { configurable: true, get: () => 'forged', set() { throw new Error('caught'); } });
export default () => [1];`,
  codes: ["ok", "TOOL_FAILED", "BUNDLE_FAILED", "OUTPUT_INVALID"],
});
