// Tests run what ships: real isolates, real processes. Forks, because isolated-vm lives in a process; two files at a time.
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  // The tools' tests are like anyone's: they import what the published package exports.
  resolve: { alias: { "glovebox/testing": fileURLToPath(new URL("src/host/testing.ts", import.meta.url)) } },
  test: {
    include: ["test/**/*.test.ts", "tools/**/*.test.ts"],
    pool: "forks",
    // isolated-vm's README demands the first; it cannot hurt here. The second is a worker's: without it WebAssembly.compile() in an
    // isolate never settles.
    execArgv: ["--no-node-snapshot", "--no-wasm-async-compilation"],
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    setupFiles: ["test/setup.ts"],
  },
});
