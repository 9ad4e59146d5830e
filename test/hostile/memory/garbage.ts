// Allocates garbage as fast as possible. With Turboshaft's loop unrolling this exceeded 3 GB and survived dispose().
import { testAttack } from "../support.ts";

testAttack("an allocating loop that keeps nothing", {
  source: `export default async () => { while (true) new Array(1000).fill(1); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
