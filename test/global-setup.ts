// Runs once before all test files: builds the sandbox's own files and the console, and makes the folder of bundles and code caches that the tests share.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stop } from "esbuild";
import { buildConsole } from "../src/bundler/artifacts/build-console.ts";
import { loadSandboxArtifacts } from "../src/bundler/artifacts/sandbox-artifacts.ts";
import { keepInterpreter, useKnownInterpreter } from "./support/interpreter-cache.ts";

/**
 * Each run starts with an empty cache, so that no run uses what an older version of the source has built. Only the interpreter's snapshot is there:
 * its name contains the hash of the runtime.
 */
export default async function setup(): Promise<(() => void) | undefined> {
  // Otherwise several test files would build them at the same time, and each keep esbuild's process as its child.
  await loadSandboxArtifacts();
  await stop();
  buildConsole();
  if (process.env.GLOVEBOX_TEST_CACHE !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "glovebox-test-cache-"));
  process.env.GLOVEBOX_TEST_CACHE = folder;
  useKnownInterpreter(folder);
  return () => {
    keepInterpreter(folder);
    rmSync(folder, { recursive: true, force: true });
  };
}
