// A tool's folder may contain entries that are not regular files: reading a FIFO would block, a sparse file would fill the memory.

import { execFileSync } from "node:child_process";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildHere, failureOf, makeFolder } from "../../bundler/workbench.ts";

test.for<[string, (folder: string) => void]>([
  ["a FIFO", (folder) => void execFileSync("/usr/bin/env", ["mkfifo", join(folder, "x.json")])],
  [
    "a sparse file of 10 GB",
    (folder) => {
      writeFileSync(join(folder, "x.json"), "");
      truncateSync(join(folder, "x.json"), 10 * 2 ** 30);
    },
  ],
  [
    "a socket",
    (folder) =>
      void execFileSync(
        process.execPath,
        [
          "-e",
          "require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))",
          join(folder, "x.json"),
        ],
        { stdio: "ignore", timeout: 200_000 },
      ),
  ],
  ["a folder of that name", (folder) => mkdirSync(join(folder, "x.json"))],
])("%s is rejected, not waited for and not read", async ([, make]) => {
  const folder = makeFolder({ "tool.ts": 'import x from "./x.json"; export default x' });
  try {
    make(folder);
  } catch (error) {
    // The process that makes a socket kills itself, so that its socket stays.
    if ((error as { readonly signal?: unknown }).signal !== "SIGKILL") throw error;
  }
  const error = await failureOf(buildHere({ path: folder }, { root: folder }));
  expect(error.code).toBe("BUNDLE_FAILED");
  expect(error.message).not.toMatch(/timeoutMs|memoryMiB/);
});
