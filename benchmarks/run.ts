// Runs every benchmark, one process each so that none warms another's code, and writes benchmarks/results/*.json and RESULTS.md.
// With names, those only; with --quick, a few calls each, to see that they work; with --page, none: the page is written anew.
import { spawnSync } from "node:child_process";
import { BARS, judgeBar, toLine } from "./support/bars.ts";
import { QUICK } from "./support/measure.ts";
import { readResults, writePage } from "./support/page.ts";
import { benchmarkPath } from "./support/tools.ts";

const BENCHMARKS = [
  "floors",
  "router",
  "agent",
  "tool-calls",
  "mcp",
  "python",
  "warm",
  "hops",
  "cold",
  "fresh",
  "platform",
  "bundle",
  "compute",
  "code-mode",
  "recording",
  "payload",
  "stream",
  "density",
  "kill",
  "start",
  "add-tool",
  "scale",
  "fleet",
  "capacity",
  "same-tenant",
  "noisy-neighbour",
] as const;
const words = process.argv.slice(2);
const names = words.filter((word) => !word.startsWith("--"));
const unknown = names.filter((name) => !(BENCHMARKS as readonly string[]).includes(name));
if (unknown.length > 0) {
  console.error(`There is no benchmark named ${unknown.join(", ")}; known are: ${BENCHMARKS.join(", ")}`);
  process.exit(2);
}

for (const name of words.includes("--page") ? [] : BENCHMARKS) {
  if (names.length > 0 && !names.includes(name)) continue;
  // They take minutes however few calls they make.
  if (QUICK && (name === "noisy-neighbour" || name === "same-tenant")) continue;
  const { status } = spawnSync(process.execPath, [benchmarkPath(`${name}.ts`), ...(QUICK ? ["--quick"] : [])], {
    stdio: "inherit",
  });
  if (status !== 0) {
    console.error(`${name} ended with ${status}: its last results stand`);
    process.exitCode = 1;
  }
}

await writePage();
const results = await readResults();
console.log("\nThe bars");
for (const bar of BARS) console.log(toLine(bar, judgeBar(bar, results.get(bar.result))));
