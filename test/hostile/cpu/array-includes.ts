// Like indexOf, on a real array full of holes.
import { testAttack } from "../support.ts";

testAttack("includes over a sparse array", {
  source: `export default async () => { const holes = []; holes.length = 2 ** 32 - 1; for (;;) Array.prototype.includes.call({ length: 2 ** 53 - 1 }, holes); };`,
  codes: ["TOOL_TIMEOUT"],
});
