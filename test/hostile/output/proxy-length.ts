// A proxy of an array reports a false length, which JSON.stringify follows.
import { testAttack } from "../support.ts";

testAttack("a proxy that claims to be an array of four billion elements", {
  source: `export default () => new Proxy([], { get: (target, key) => (key === 'length' ? 2 ** 32 - 1 : key === 'toJSON' ? undefined : 1) });`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "OUTPUT_TOO_LARGE", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
});
