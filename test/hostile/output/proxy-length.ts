// A proxy of an array says how long it is, and JSON.stringify goes that far.
import { testAttack } from "../support.ts";

testAttack("a proxy that says it is an array of four billion", {
  source: `export default () => new Proxy([], { get: (target, key) => (key === 'length' ? 2 ** 32 - 1 : key === 'toJSON' ? undefined : 1) });`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "OUTPUT_TOO_LARGE", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
});
