// Promise.race over a set that its own members add to.
import { testAttack } from "../support.ts";

testAttack("promises that feed the race they run in", {
  source: `export default async () => { const feed = () => Promise.race([new Promise(() => {}), Promise.resolve().then(feed)]); await feed(); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
