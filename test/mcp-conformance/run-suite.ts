// Runs the conformance suite's own command against a server or a client of ours, and reads what it says of each scenario.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { EXPECTED_FAILURES, type Leg, type Revision } from "./expectations.ts";

const SUITE = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")),
  "dist/index.js",
);
const TRIES = 2;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

interface SuiteRun {
  /** 0 where all that is scored has passed. */
  readonly exitCode: number;
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** All that it said. */
  readonly output: string;
}

const scenarios = (output: string, mark: string): readonly string[] => [
  // One line for each, and then one for each check.
  ...new Set([...output.matchAll(new RegExp(`^${mark} ([\\w./-]+): \\d+ passed`, "gm"))].map(([, name = ""]) => name)),
];

async function runSuite(leg: Leg, ...args: readonly string[]): Promise<SuiteRun> {
  const folder = await mkdtemp(join(tmpdir(), "mcp-conformance-"));
  try {
    const { promise, resolve } = Promise.withResolvers<{ readonly exitCode: number; readonly output: string }>();
    const command = [SUITE, leg, ...args, "-o", folder];
    execFile(process.execPath, command, { maxBuffer: MAX_OUTPUT_BYTES }, (error, stdout, stderr) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    );
    const { exitCode, output } = await promise;
    return { exitCode, output, passed: scenarios(output, "✓"), failed: scenarios(output, "✗") };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** By itself: some of its checks give an answer half a second, which a machine that is busy with other tests may take. */
async function passesAlone(revision: Revision, target: readonly string[], scenario: string): Promise<boolean> {
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const run = await runSuite("server", ...target, "--scenario", scenario, "--spec-version", revision);
    if (run.exitCode === 0 && /^Passed: ([1-9]\d*)\/\1, 0 failed/m.test(run.output)) return true;
  }
  return false;
}

/**
 * Passes where nothing has failed that is not expected to.
 * @param target how the suite reaches what it tests: `--url` or `--command`
 * @param scored so many have passed when the set was read: one that is no longer run would pass unseen
 */
export async function expectSuitePasses(
  leg: Leg,
  revision: Revision,
  target: readonly string[],
  scored: number,
): Promise<void> {
  const { exitCode, passed, failed, output } = await runSuite(leg, ...target, "--requirements", revision);
  const expected = EXPECTED_FAILURES.filter((one) => one.leg === leg);
  const unexpected = failed.filter((name) => !expected.some(({ scenarios }) => name.startsWith(scenarios)));
  const late: string[] = [];
  for (const name of leg === "server" ? unexpected : []) if (await passesAlone(revision, target, name)) late.push(name);
  expect(
    unexpected.filter((name) => !late.includes(name)),
    output.slice(-20_000),
  ).toEqual([]);
  if (late.length === 0) expect(exitCode).toBe(0);
  expect(passed.length + late.length).toBeGreaterThanOrEqual(scored);
}
