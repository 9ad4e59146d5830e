// The soak itself, for a minute: it runs, loses nothing, leaves nothing, and says how each figure drifts.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const SOAK = fileURLToPath(new URL("../../benchmarks/soak.ts", import.meta.url));
/**
 * What may not leak. How fast calls are is not judged here: the machine is busy with other tests. Nor is the resident memory of a host
 * in its first minute, which follows the collector: the heap and what hangs on it are.
 */
const LEAKS = [
  "hostHeapMiB",
  "hostExternalMiB",
  "hostArrayBuffersMiB",
  "activeResources",
  "openFiles",
  "workers",
  "descendants",
] as const;

interface SoakResult {
  readonly calls: { readonly total: number; readonly lost: number; readonly wrong: number };
  readonly slopes: { readonly [figure: string]: { readonly verdict: string } };
}

test("benchmarks/soak.ts loses no call, leaks nothing, leaves no process, and tells the slope of each figure", {
  timeout: 180_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-soak-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "soak.json");
  const soak = spawn(process.execPath, [SOAK, "--minutes", "1", "--out", out], {
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
  const { calls, slopes } = JSON.parse(readFileSync(out, "utf8")) as SoakResult;
  expect(calls, stdout).toMatchObject({ lost: 0, wrong: 0 });
  expect(calls.total).toBeGreaterThan(10);
  expect(stdout).not.toContain("left behind");
  for (const figure of LEAKS) expect([figure, slopes[figure]?.verdict], stdout).not.toEqual([figure, "DRIFTS"]);
  for (const figure of [...LEAKS, "healthyP99Ms"]) expect(stdout).toContain(figure);
});
