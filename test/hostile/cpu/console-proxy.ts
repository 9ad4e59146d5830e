// The prelude walks the arguments of console.log. Every step of the walk runs a slow trap.
import { testAttack } from "../support.ts";

testAttack("console.log of a proxy without end", {
  source: `export default () => { const endless = () => new Proxy({}, { ownKeys: () => Array.from({ length: 1e3 }, (_, n) => 'k' + n), getOwnPropertyDescriptor: (t, key) => ({ value: endless(), enumerable: true, configurable: true }), get: () => endless() }); for (;;) console.log(endless()); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
