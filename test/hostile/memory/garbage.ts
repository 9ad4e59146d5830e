// Garbage as fast as it can be made: with Turboshaft's loop unrolling this passed 3 GB and survived dispose().
import { testAttack } from "../support.ts";

testAttack("an allocating loop that keeps nothing", {
  source: `export default async () => { while (true) new Array(1000).fill(1); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
