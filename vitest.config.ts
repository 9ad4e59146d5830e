// Tests run what ships: real isolates, real processes. Forks, because isolated-vm lives in a process; three files at a time.
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Hosts and command lines that tests start load the same sources hundreds of times: they are compiled once.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("node_modules/.cache/glovebox/node", import.meta.url));

/**
 * Files that follow each other in one process: to start one and load our modules anew takes most of a second of CPU time, several
 * hundred times. Only what is tested in processes of its own, or keeps nothing in this one: what holds isolates here, or changes what belongs
 * to the whole process, has one to itself.
 */
const SHARED = [
  // Not those with a folder or an esbuild of their own for each file.
  "test/host/!(author-places).test.ts",
  "test/host/{capabilities,json-schema,redaction,workers}/*.test.ts",
  // Not how long the event loop is held: a full collection of many files' heap takes 100 ms and more, what is measured 9.
  "test/host/pipeline/!(event-loop).test.ts",
  // Not attacks with a Glovebox of their own: to start its first workers a process of many files' size is held up for 100 ms and more.
  "test/hostile/{cpu,memory,output}.test.ts",
  "test/hostile/{cpu,memory,output}/*.test.ts",
];

/** Of the hostile suite, what runs with dynamic code turned off too: the paths to the engine, and what a tool leaves behind. */
const DYNAMIC_CODE_OFF = ["test/hostile/escape/*.test.ts", "test/hostile/isolation.test.ts"];

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
  resolve: { alias: { "glovebox/testing": fileURLToPath(new URL("src/host/testing.ts", import.meta.url)) } },
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
    setupFiles: ["test/setup.ts"],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: "own process",
          include: ["test/**/*.test.ts", "tools/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...SHARED],
        },
      },
      {
        // Attacks run with dynamic code, which is the default; those that could differ without it run a second time.
        extends: true,
        test: {
          name: "dynamic code off",
          include: DYNAMIC_CODE_OFF,
          env: { GLOVEBOX_TEST_DYNAMIC_CODE: "off" },
        },
      },
      {
        extends: true,
        test: {
          name: "shared process",
          include: SHARED,
          isolate: false,
        },
      },
    ],
  },
});
