// Tests run what ships: real isolates, real processes. Forks, because isolated-vm lives in a process; three files at a time.
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Hosts and command lines that tests start load the same sources hundreds of times: they are compiled once.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("node_modules/.cache/glovebox/node", import.meta.url));

/**
 * Files that run one after the other in the same process: starting a process and loading the modules takes most of a second of CPU time,
 * several hundred times. A file that holds isolates in its process, or changes what belongs to the whole process, has one to itself.
 */
const SHARED = [
  "test/cli/*.test.ts",
  "test/host/{capabilities,config,contract,doctor,executors,json,json-schema,testing,workers}/*.test.ts",
  "test/host/observability/{redaction/*,operator-log,hooks/hooks}.test.ts",
  "test/host/routing/{bad-inputs,registry,tool-gate,tool-invoker,tool-router,unavailable}.test.ts",
  "test/host/tenants/tenant-concurrency.test.ts",
  // author-places has a folder and an esbuild of its own.
  "test/host/glovebox/!(author-places).test.ts",
  // event-loop measures how long the event loop is held: a full collection of many files' heap takes 100 ms and more.
  "test/host/pipeline/!(event-loop).test.ts",
];
/** The same for attacks. Those with a Glovebox of their own keep a process of their own: a large process starts workers too slowly. */
const SHARED_HOSTILE = ["test/hostile/{cpu,memory,output}.test.ts", "test/hostile/{cpu,memory,output}/*.test.ts"];
/** Attacks, and runs in which processes are killed at random: slow, and the same on every version of Node. */
const HOSTILE = ["test/hostile/**/*.test.ts", "test/host/mcp/upstream{,-list}-attacks.test.ts"];
const CHAOS = ["test/chaos/*.test.ts"];
/** The packed tarball: installed on each supported version of Node by the test itself. */
const PACKAGE = ["test/e2e/package.test.ts"];

/** Attacks that run a second time with dynamic code turned off: the paths to the engine. With GLOVEBOX_ATTACKS=all it is all of them. */
const DYNAMIC_CODE_OFF =
  process.env.GLOVEBOX_ATTACKS === "all"
    ? HOSTILE.slice(0, 1)
    : ["test/hostile/escape/!(coarse-time|crypto-polluted|debugger|import-meta).test.ts"];

/** The longest, which vitest takes for the shortest: their tests are in other files. */
const LONGEST = /\/test\/hostile\/(capabilities|cpu|isolation|memory|output|protocol|python)\.test\.ts$/;

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { long = [], other = [] } = Object.groupBy(await super.sort(files), ({ moduleId }) =>
      LONGEST.test(moduleId) ? "long" : "other",
    );
    return [...long, ...other];
  }
}

export default defineConfig({
  // The tools' tests are like anyone's: they import what the published package exports.
  resolve: { alias: { "glovebox/testing": fileURLToPath(new URL("src/host/testing/index.ts", import.meta.url)) } },
  test: {
    pool: "forks",
    // isolated-vm's README demands the first; it cannot hurt here. The second is a worker's: without it WebAssembly.compile() in an
    // isolate never settles.
    execArgv: ["--no-node-snapshot", "--no-wasm-async-compilation"],
    // One more than the least number of cores: much of what is tested waits for a deadline.
    maxWorkers: 3,
    // For a machine that others use too.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Only what a clock has judged: what our code does wrong it does twice, what the machine's other work does it does now and then.
    // The report says which were tried again.
    retry: {
      count: 1,
      condition: /\bexpected \d[\d.e+]* to be (?:less|greater) than|^Test timed out in|^Longest hold of the/,
    },
    globalSetup: ["test/global-setup.ts"],
    setupFiles: ["test/setup.ts"],
    sequence: { sequencer: LongestFirst },
    // `npm run test:node24` leaves out "hostile", "chaos" and "package".
    projects: [
      { extends: true, test: { name: "shared process", include: SHARED, isolate: false } },
      {
        extends: true,
        test: {
          name: "own process",
          include: ["test/**/*.test.ts", "tools/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...SHARED, ...HOSTILE, ...CHAOS, ...PACKAGE],
        },
      },
      { extends: true, test: { name: "hostile shared", include: SHARED_HOSTILE, isolate: false } },
      {
        // Attacks run with dynamic code, which is the default; those that could differ without it run a second time.
        extends: true,
        test: {
          name: "hostile without dynamic code",
          include: DYNAMIC_CODE_OFF,
          env: { GLOVEBOX_TEST_DYNAMIC_CODE: "off" },
        },
      },
      {
        extends: true,
        test: { name: "hostile", include: HOSTILE, exclude: [...configDefaults.exclude, ...SHARED_HOSTILE] },
      },
      { extends: true, test: { name: "chaos", include: CHAOS } },
      { extends: true, test: { name: "package", include: PACKAGE } },
    ],
  },
});
