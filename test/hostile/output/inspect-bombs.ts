// console.log inspects its arguments: traps, cycles, depth and width.
import { testAttack } from "../support.ts";

testAttack("hostile values for console.log", {
  source: `export default async () => { const trap = () => { throw new Error('trap'); }; const proxy = new Proxy({}, { get: trap, ownKeys: trap, getPrototypeOf: trap, has: trap }); let deep = {}; for (let n = 0; n < 1e5; n += 1) deep = { deep }; const wide = Object.fromEntries(Array.from({ length: 1e5 }, (_, n) => ['k' + n, { n }])); wide.self = wide; console.log(proxy, deep, wide, { get x() { throw 1; } }, new Map([[proxy, deep]]), '%s%o%d', proxy); return 1; };`,
  codes: ["ok", "TOOL_FAILED"],
});
