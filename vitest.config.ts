// Tests run what ships: real isolates, real processes. Forks, because isolated-vm lives in a process; two files at a time.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts", "tools/**/*.test.ts"],
    pool: "forks",
    // isolated-vm's README demands the flag; it cannot hurt here.
    execArgv: ["--no-node-snapshot"],
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    setupFiles: ["test/setup.ts"],
  },
});
