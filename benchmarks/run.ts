// Runs every benchmark, one process each so that none warms another's code, and writes benchmarks/results/*.json.
import { spawnSync } from "node:child_process";
import { benchmarkPath } from "./support/tools.ts";

const BENCHMARKS = ["router", "warm", "cold", "bundle", "noisy-neighbour"] as const;
const [only] = process.argv.slice(2);

for (const name of BENCHMARKS) {
  if (only !== undefined && only !== name) continue;
  const { status } = spawnSync(process.execPath, [benchmarkPath(`${name}.ts`)], { stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
}
