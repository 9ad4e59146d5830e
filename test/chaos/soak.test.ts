// The soak itself, for a minute: it runs, loses nothing, leaves nothing, and says how each figure drifts.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const SOAK = fileURLToPath(new URL("../../benchmarks/soak.ts", import.meta.url));
const FIGURES = ["hostRssMiB", "activeResources", "openFiles", "workers", "descendants", "healthyP99Ms"];

test("benchmarks/soak.ts loses no call, leaves no process, and tells the slope of each figure", {
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
  const [code] = await once(soak, "close");
  expect(code, stdout).toBe(0);
  for (const figure of FIGURES) expect(stdout).toContain(figure);
  const { calls } = JSON.parse(readFileSync(out, "utf8")) as { calls: { total: number; lost: number; wrong: number } };
  expect(calls).toMatchObject({ lost: 0, wrong: 0 });
  expect(calls.total).toBeGreaterThan(10);
});
