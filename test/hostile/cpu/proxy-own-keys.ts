// A proxy whose list of keys is a million long, checked against its target by the engine at each look.
import { testAttack } from "../support.ts";

testAttack("a proxy with a million keys", {
  source: `export default () => { const keys = Array.from({ length: 3e5 }, (_, n) => 'k' + n); const proxy = new Proxy({}, { ownKeys: () => keys, getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }) }); for (;;) Object.entries(proxy); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
