// A proxy with a million keys. The engine checks the list against the target at each read.
import { testAttack } from "../support.ts";

testAttack("a proxy with a million keys", {
  source: `export default () => { const keys = Array.from({ length: 3e5 }, (_, n) => 'k' + n); const proxy = new Proxy({}, { ownKeys: () => keys, getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }) }); for (;;) Object.entries(proxy); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
