// Runs the command of the conformance suite against the server or the client, and parses its report on each scenario.
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
const TRIES = 20;
/** Time in ms for a scenario, of which the client starts a process. */
const CLIENT_MS = 200_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

interface SuiteRun {
  /** 0 if all scored scenarios have passed. */
  readonly exitCode: number;
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** The whole output. */
  readonly output: string;
}

const scenarios = (output: string, mark: string): readonly string[] => [
  // One line for each scenario, followed by one for each check.
  ...new Set([...output.matchAll(new RegExp(`^${mark} ([\\w./-]+): \\d+ passed`, "gm"))].map(([, name = ""]) => name)),
];

export async function runSuite(leg: Leg, ...args: readonly string[]): Promise<SuiteRun> {
  const folder = await mkdtemp(join(tmpdir(), "mcp-conformance-"));
  try {
    const { promise, resolve } = Promise.withResolvers<{ readonly exitCode: number; readonly output: string }>();
    const patience = leg === "client" ? ["--timeout", String(CLIENT_MS)] : [];
    const command = [SUITE, leg, ...args, ...patience, "-o", folder];
    execFile(process.execPath, command, { maxBuffer: MAX_OUTPUT_BYTES }, (error, stdout, stderr) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    );
    const { exitCode, output } = await promise;
    return { exitCode, output, passed: scenarios(output, "✓"), failed: scenarios(output, "✗") };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Runs one scenario at a time: some checks allow half a second for an answer, which is too short on a busy machine. */
export async function passesAlone(
  leg: Leg,
  revision: Revision,
  target: readonly string[],
  scenario: string,
): Promise<boolean> {
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const run = await runSuite(leg, ...target, "--scenario", scenario, "--spec-version", revision, "--force");
    if (run.exitCode === 0 && /^Passed: ([1-9]\d*)\/\1, 0 failed/m.test(run.output)) return true;
  }
  return false;
}

/**
 * Asserts that only expected scenarios have failed.
 * @param target how the suite reaches the tested server or client: `--url` or `--command`
 * @param scored expected number of scored scenarios, so that a scenario that no longer runs is noticed
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
  for (const name of unexpected) if (await passesAlone(leg, revision, target, name)) late.push(name);
  expect(
    unexpected.filter((name) => !late.includes(name)),
    output.slice(-20_000),
  ).toEqual([]);
  if (late.length === 0) expect(exitCode).toBe(0);
  expect(passed.length + late.length).toBeGreaterThanOrEqual(scored);
}
