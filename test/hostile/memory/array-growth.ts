// The simplest attack: an array that grows.
import { testAttack } from "../support.ts";

testAttack("an array without end", {
  source: `export default async () => { const all = []; for (;;) all.push(new Array(1e4).fill(1.5)); };`,
  codes: ["MEMORY_LIMIT"],
});
