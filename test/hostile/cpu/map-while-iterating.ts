// Iterating a Map also visits the entries that are added during the iteration.
import { testAttack } from "../support.ts";

testAttack("a Map that grows while it is walked", {
  source: `export default () => { const map = new Map([[0, 0]]); for (const [key] of map) { map.delete(key); map.set(key + 1, 0); } };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
