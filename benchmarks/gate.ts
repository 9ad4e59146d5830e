// Is the working tree slower than a commit? Both are measured in turns in processes of their own; ends with exit code 1 if a figure is
// more than 10 % worse. `node benchmarks/gate.ts [COMMIT]`, by default the last commit.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { benchmarkPath } from "./support/tools.ts";

const ROUNDS = 7;
const MAX_LOSS = 1.1;

const [commit = "HEAD"] = process.argv.slice(2);
const root = benchmarkPath("..");
const folder = mkdtempSync(join(tmpdir(), "glovebox-gate-"));
const base = join(folder, "base");

/** Figures by name, each relative to raw isolated-vm in the same process; less is better. */
type Figures = Readonly<Record<string, number>>;

const measure = (tree: string): Figures => {
  const script = benchmarkPath("support/gate-child.ts");
  const output = execFileSync(process.execPath, [script, tree], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(output) as Figures;
};
const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

try {
  execFileSync("git", ["-C", root, "worktree", "add", "--detach", "--quiet", base, commit]);
  symlinkSync(join(root, "node_modules"), join(base, "node_modules"));
  const taken: { readonly before: Figures; readonly after: Figures }[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    // The first round fills the caches on disk. Afterwards the order alternates.
    const isBaseFirst = round % 2 === 0;
    const first = measure(isBaseFirst ? base : root);
    const second = measure(isBaseFirst ? root : base);
    if (round > 0) taken.push(isBaseFirst ? { before: first, after: second } : { before: second, after: first });
  }
  const names = Object.keys(taken[0]?.after ?? {});
  const rows = names.map((name) => {
    const before = median(taken.map((round) => round.before[name] ?? Number.NaN));
    const after = median(taken.map((round) => round.after[name] ?? Number.NaN));
    return { figure: name, before: before.toFixed(2), after: after.toFixed(2), change: after / before };
  });
  console.table(rows.map(({ change, ...row }) => ({ ...row, change: `${((change - 1) * 100).toFixed(1)} %` })));
  const worse = rows.filter(({ change }) => !(change <= MAX_LOSS));
  for (const { figure } of worse) console.error(`${figure} is more than 10 % worse than at ${commit}`);
  if (worse.length > 0) process.exitCode = 1;
} finally {
  execFileSync("git", ["-C", root, "worktree", "remove", "--force", base]);
  rmSync(folder, { recursive: true, force: true });
}
