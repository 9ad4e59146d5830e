// Is the working tree slower than a commit? Both are measured in turns in processes of their own; ends with exit code 1 if a figure is
// more than 10 % worse. `node benchmarks/gate.ts [COMMIT]`, by default the commit where the branch left main. A figure that seems worse is
// measured again before it counts, because other programs on the machine may have taken their time from one of the two.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { benchmarkPath } from "./support/tools.ts";

const ROUNDS = 4;
/** Further measurements of figures that seem worse. */
const RETRIES = 2;
const MAX_LOSS = 1.1;

const root = benchmarkPath("..");
const git = (...args: readonly string[]): string =>
  execFileSync("git", ["-C", root, ...args], { encoding: "utf8" }).trim();

/** The commit where the branch left main; on main the last one, or the one before if nothing is changed since. */
function baseCommit(): string {
  const [head, base] = [git("rev-parse", "HEAD"), git("merge-base", "HEAD", "main")];
  if (base !== head) return base;
  return git("status", "--porcelain", "--untracked-files=no") === "" ? "HEAD~1" : "HEAD";
}

const [commit = baseCommit()] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "glovebox-gate-"));
const base = join(folder, "base");

/** Figures by name; less is better. */
type Figures = Readonly<Record<string, number>>;

const measure = (tree: string): Figures => {
  const script = benchmarkPath("support/gate-child.ts");
  const output = execFileSync(process.execPath, [script, tree], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(output) as Figures;
};
/** Other programs only make a figure worse, so that the best ones tell most. A single one may be luck. */
const secondBest = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[1] ?? Number.NaN;

interface Round {
  readonly before: Figures;
  readonly after: Figures;
}

/** Measures both trees. The order alternates. */
function measureRound(round: number): Round {
  if (round % 2 === 0) return { before: measure(base), after: measure(root) };
  const after = measure(root);
  return { before: measure(base), after };
}

interface Row {
  readonly figure: string;
  readonly before: number;
  readonly after: number;
  readonly change: number;
}

function compare(taken: readonly Round[]): readonly Row[] {
  return Object.keys(taken[0]?.after ?? {}).map((figure) => {
    const before = secondBest(taken.map((round) => round.before[figure] ?? Number.NaN));
    const after = secondBest(taken.map((round) => round.after[figure] ?? Number.NaN));
    return { figure, before, after, change: after / before };
  });
}

const isWorse = ({ change }: Row): boolean => !(change <= MAX_LOSS);

try {
  git("worktree", "add", "--detach", "--quiet", base, commit);
  symlinkSync(join(root, "node_modules"), join(base, "node_modules"));
  // Fills the caches on disk.
  measureRound(0);
  const taken: Round[] = [];
  let rows: readonly Row[] = [];
  for (let attempt = 0; attempt <= RETRIES; attempt += 1) {
    for (let round = 0; round < ROUNDS; round += 1) taken.push(measureRound(round));
    rows = compare(taken);
    if (!rows.some(isWorse)) break;
  }
  console.table(
    rows.map(({ figure, before, after, change }) => ({
      figure,
      before: before.toFixed(1),
      after: after.toFixed(1),
      change: `${((change - 1) * 100).toFixed(1)} %`,
    })),
  );
  const worse = rows.filter(isWorse);
  for (const { figure } of worse) console.error(`${figure} is more than 10 % worse than at ${commit}`);
  if (worse.length > 0) process.exitCode = 1;
} finally {
  git("worktree", "remove", "--force", base);
  rmSync(folder, { recursive: true, force: true });
}
