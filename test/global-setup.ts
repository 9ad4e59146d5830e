// Runs once before all test files: builds the sandbox's own files and the console, and makes the folder of bundles and code caches that the tests share.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stop } from "esbuild";
import { loadSandboxArtifacts } from "../src/bundler/artifacts/sandbox-artifacts.ts";

/** Builds the console, which takes less than a second, once for all projects of a run. */
function buildConsole(): void {
  if (process.env.GLOVEBOX_TEST_CONSOLE !== undefined) return;
  process.env.GLOVEBOX_TEST_CONSOLE = "built";
  const path = (relative: string): string => fileURLToPath(new URL(`../${relative}`, import.meta.url));
  for (const config of ["src/console/vite.config.ts", "src/console/trace/vite.config.ts"]) {
    const args = ["build", "--config", path(config), "--logLevel", "warn"];
    execFileSync(process.execPath, [path("node_modules/vite/bin/vite.js"), ...args], {
      stdio: ["ignore", "ignore", "inherit"],
    });
  }
}

/** Each run starts with an empty cache, so that no run uses what an older version of the source has built. */
export default async function setup(): Promise<(() => void) | undefined> {
  // Otherwise several test files would build them at the same time, and each keep esbuild's process as its child.
  await loadSandboxArtifacts();
  await stop();
  buildConsole();
  if (process.env.GLOVEBOX_TEST_CACHE !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "glovebox-test-cache-"));
  process.env.GLOVEBOX_TEST_CACHE = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
