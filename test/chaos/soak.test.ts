// Runs the soak benchmark: it loses nothing, leaves nothing behind, and reports the drift of each figure. Ten seconds are too short for a
// drift; with GLOVEBOX_ATTACKS=all it runs for a minute, and the figures must not drift.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { judge, slopeOf } from "../../benchmarks/support/slope.ts";
import { MAX_WORKERS } from "../../benchmarks/support/soak-load.ts";
import { FIGURES, type Reading } from "../../benchmarks/support/soak-samples.ts";
import { STRIKES_ALL } from "../support/attack-sample.ts";

const MINUTES = STRIKES_ALL ? 1 : 1 / 6;
const SOAK = fileURLToPath(new URL("../../benchmarks/soak.ts", import.meta.url));
/**
 * Samples that must not grow. The speed of calls is not checked, because the machine is busy with other tests, and neither is resident memory,
 * which in the first minute depends on the garbage collector.
 */
const LEAKS = ["hostHeapMiB", "hostExternalMiB", "hostArrayBuffersMiB"] as const;
/**
 * Amounts that belong to each worker process (support/soak-samples.ts), and are subtracted: a busy machine takes more than a minute to start
 * the processes that the load needs, and until then all of these grow.
 */
const OF_EACH_WORKER = { activeResources: 3, openFiles: 4, descendants: 3 } as const;

interface SoakResult {
  readonly calls: { readonly total: number; readonly lost: number; readonly wrong: number };
  readonly slopes: { readonly [figure: string]: { readonly verdict: string } };
  readonly points: readonly Reading[];
}

test("benchmarks/soak.ts loses no call, leaves no process, and tells the slope of each figure; a minute of it leaks nothing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-soak-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "soak.json");
  const soak = spawn(process.execPath, [SOAK, "--minutes", String(MINUTES), "--out", out], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => {
    soak.kill("SIGKILL");
  });
  let stdout = "";
  soak.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  await once(soak, "close");
  const { calls, slopes, points } = JSON.parse(readFileSync(out, "utf8")) as SoakResult;
  expect(calls, stdout).toMatchObject({ lost: 0, wrong: 0 });
  expect(calls.total).toBeGreaterThan(10);
  expect(stdout).not.toContain("left behind");
  const warm = points.slice(Math.ceil(points.length / 5));
  expect(Math.max(...warm.map(({ workers }) => workers)), stdout).toBeLessThanOrEqual(MAX_WORKERS);
  for (const figure of [...LEAKS, "workers", "healthyP99Ms"]) expect(stdout).toContain(figure);
  if (!STRIKES_ALL) return;
  for (const figure of LEAKS) expect([figure, slopes[figure]?.verdict], stdout).not.toEqual([figure, "DRIFTS"]);
  for (const figure of ["activeResources", "openFiles", "descendants"] as const) {
    const withoutWorkers = ({ hours, workers, ...point }: Reading) => ({
      hours,
      value: point[figure] - workers * OF_EACH_WORKER[figure],
    });
    expect([figure, judge(slopeOf(warm.map(withoutWorkers)), FIGURES[figure])], stdout).not.toEqual([figure, "DRIFTS"]);
  }
});
