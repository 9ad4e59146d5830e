// How long does it take from nothing to the first result: in a program of one's own, and from the command line?
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Peers } from "./peers/all.ts";
import { ADD } from "./support/jobs.ts";
import { QUICK, reportLatencies, times } from "./support/measure.ts";
import { benchmarkPath } from "./support/tools.ts";

const run = promisify(execFile);
const ROUNDS = times(30, 1);
const isBuilt = existsSync(benchmarkPath("../dist/cli/main.js"));
const cli = benchmarkPath(isBuilt ? "../dist/cli/main.js" : "../src/cli/main.ts");
const entry = benchmarkPath(isBuilt ? "../dist/host/index.js" : "../src/host/index.ts");
const folder = await mkdtemp(join(tmpdir(), "glovebox-start-"));
const cache = join(folder, ".cache", "glovebox");

interface StartReport {
  readonly success: boolean;
  readonly importMs: number;
  readonly fromCreateMs: number;
  readonly fromStartMs: number;
}

async function startChild(tool: string, input: object): Promise<StartReport> {
  const { stdout } = await run(process.execPath, [
    benchmarkPath("support/start-child.ts"),
    entry,
    cache,
    benchmarkPath(tool),
    JSON.stringify(input),
  ]);
  const report = JSON.parse(stdout) as StartReport;
  if (!report.success) throw new Error(`Expected ${tool} to succeed`);
  return report;
}

/** @param home where the command line keeps its caches */
async function runEcho(home: string): Promise<void> {
  const echo = [benchmarkPath("../tools/echo"), "--input-file", benchmarkPath("../tools/echo/example.json")];
  await run(process.execPath, [cli, "run", ...echo], { env: { ...process.env, HOME: home } });
}

async function clock(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

await using peers = await Peers.start({ only: ["deno"] });
const taken = new Map<string, number[]>();
const add = (name: string, ms: number): void => {
  taken.set(name, [...(taken.get(name) ?? []), ms]);
};
const LARGE_INPUT = { day: "2026-02-28", numbers: [1, 2, 3] };

for (let round = 0; round <= ROUNDS; round += 1) {
  const bare = await clock(() => run(process.execPath, ["--eval", "0"]));
  const small = await startChild("tools/add.ts", { a: 1, b: 2 });
  const large = QUICK ? undefined : await startChild("tools/large.ts", LARGE_INPUT);
  const help = await clock(() => run(process.execPath, [cli, "--help"]));
  const uncached = await clock(() => runEcho(join(folder, `home-${round}`)));
  const command = await clock(() => runEcho(folder));
  // The first round fills the caches on disk.
  if (round === 0) continue;
  add("node --eval 0", bare);
  add("Glovebox, import", small.importMs);
  add("Glovebox, createGlovebox to first result", small.fromCreateMs);
  add("Glovebox, process start to first result", small.fromStartMs);
  if (large !== undefined) add("Glovebox, createGlovebox to first result, 477 KB bundle", large.fromCreateMs);
  add("glovebox --help", help);
  add("glovebox run tools/echo, nothing cached", uncached);
  add("glovebox run tools/echo", command);
  for (const { name, peer } of peers.open) add(`${name}, process start to end`, await clock(() => peer.run(ADD)));
}
await rm(folder, { recursive: true, force: true });

await reportLatencies({
  name: "start",
  question: "From nothing to the first result, with bundle and code cache on disk",
  taken,
  notes: [
    `Both run from ${isBuilt ? "the built package" : "the sources, which Node strips of types at each start"}. node --eval 0 is the floor of every start.`,
    ...peers.notes,
  ],
  leftOut: peers.leftOut,
});
