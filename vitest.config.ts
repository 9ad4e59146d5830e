// Tests run what ships: real isolates, real processes. Forks, because isolated-vm lives in a process; four files at a time.
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Hosts and command lines that tests start load the same sources hundreds of times: they are compiled once.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("node_modules/.cache/glovebox/node", import.meta.url));

/** Tests of plain functions: they start no process, no isolate and no server. `npm run test:unit` runs these alone. */
const UNIT = [
  "test/bundler/{needed-intrinsics,tool-paths}.test.ts",
  "test/cli/{arguments,output}.test.ts",
  "test/console/{tunnel,versions}.test.ts",
  "test/executor/calls/hosted-sessions.test.ts",
  "test/fleet/{check-history,ended-sessions,lost-executors,placement,wire}.test.ts",
  "test/host/{json-schema,util}/*.test.ts",
  "test/host/adapters/http-status.test.ts",
  "test/host/agent/{conversation,routing-decision,tool-search}.test.ts",
  "test/host/capabilities/{kv-memory,standard-schema}.test.ts",
  "test/host/conformance/{agent,router}-callbacks.test.ts",
  "test/host/contract/{failure-message,tool-value}.test.ts",
  "test/host/json/non-finite.test.ts",
  "test/host/mcp/upstream-text.test.ts",
  "test/host/observability/redaction/*.test.ts",
  "test/host/observability/telemetry/trace-context.test.ts",
  "test/host/openai/{hostile,strict-options,strict-schema,tool-names}.test.ts",
  "test/host/pipeline/{check-input,coercion,execute,prepare,tool-digest,validate}.test.ts",
  "test/host/python/{python-source,wheels}.test.ts",
  "test/host/routing/registry.test.ts",
  "test/host/routing/health/circuit.test.ts",
  "test/host/tenants/quota-stores.test.ts",
  "test/host/testing/stubs.test.ts",
  "test/host/workers/{chunk-lines,fair-queue,seccomp}.test.ts",
  "test/server/metrics.test.ts",
  "test/sandbox/{engine-features,errors,length-prefixed,limits,protocol}.test.ts",
  "test/sandbox/contract/{event-stream,plain-object}.test.ts",
  "test/sandbox/python/snapshot.test.ts",
  "test/sandbox/crypto/*.test.ts",
];

/**
 * Files with a process of their own. The others run one after the other in a few processes: starting one and loading the modules takes most
 * of a second of CPU time.
 */
const OWN_PROCESS = [
  // Sends hundreds of MiB, and counts what stays in memory.
  "test/host/egress/filled-size.test.ts",
  // Has a folder and an esbuild of its own.
  "test/host/glovebox/author-places.test.ts",
  // Measures how long the event loop is held: a full collection of many files' heap takes 100 ms and more.
  "test/host/pipeline/event-loop.test.ts",
  // Replaces a module of Glovebox.
  "test/server/code-run-pins.test.ts",
];
/** Attacks, and runs in which processes are killed at random: slow, and the same on every version of Node. */
const HOSTILE = ["test/hostile/**/*.test.ts", "test/host/mcp/upstream{,-list}-attacks.test.ts"];
const CHAOS = ["test/chaos/*.test.ts"];
/** The product as its users run it: the command line, the documents, the examples, and protocol suites of others. */
const E2E = [
  "test/{cli,console,e2e,examples,mcp-conformance,types}/*.test.ts",
  "test/{docs,doc-comments}.test.ts",
  "tools/**/*.test.ts",
];
/** The packed tarball: installed on each supported version of Node by the test itself. */
const PACKAGE = ["test/e2e/package.test.ts"];
const BUILT = ["test/global-setup.ts", "test/package-setup.ts"];
const EXCLUDED = configDefaults.exclude;

/** Attacks that run a second time with dynamic code turned off: the paths to the engine. With GLOVEBOX_ATTACKS=all it is all of them. */
const DYNAMIC_CODE_OFF =
  process.env.GLOVEBOX_ATTACKS === "all"
    ? HOSTILE.slice(0, 1)
    : ["test/hostile/escape/!(coarse-time|crypto-polluted|debugger|import-meta).test.ts"];

/** The longest files start first, so that none of them runs alone at the end. */
const LONGEST = new RegExp(
  `/test/(${[
    "console/(accessibility|safety|story)",
    "docs",
    "e2e/(chaos|cli-mcp|cli-process|inspect|fleet-chaos|fleet-conformance|fleet-upgrade|package|run-chaos|serve)",
    "examples/programs",
    "fleet/(faults|python|sessions)",
    "host/egress/http-client",
    "host/mcp/client-lifetime",
    "host/python/python-tools",
    "host/recording/offline-replay",
    "host/runs/(killed-runs|python-rollback)",
    "host/workers/workers",
    "hostile/(capabilities|cpu|fleet|isolation|memory|output|protocol|python)",
    "python/library",
    "server/(approvals|code-runs|code-run-pins|data|events|outages|replicas|runs|tools|work-queue)",
  ].join("|")})\\.test\\.ts$`,
);

type ProjectConfig = NonNullable<TestProjectInlineConfiguration["test"]>;

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { long = [], other = [] } = Object.groupBy(await super.sort(files), ({ moduleId }) =>
      LONGEST.test(moduleId) ? "long" : "other",
    );
    return [...long, ...other];
  }
}

/** Returns a project: a group of test files that run in the same way. */
const project = (name: string, options: ProjectConfig): TestProjectInlineConfiguration => ({
  extends: true,
  test: { globalSetup: ["test/global-setup.ts"], ...options, name },
});

export default defineConfig({
  // The tools' tests are like anyone's: they import what the published package exports.
  resolve: { alias: { "glovebox/testing": fileURLToPath(new URL("src/host/testing/index.ts", import.meta.url)) } },
  test: {
    pool: "forks",
    // isolated-vm's README demands the first; it cannot hurt here. The others are a worker's: without the second, WebAssembly.compile() in an
    // isolate never settles; without the third, Python's main loop is compiled several times.
    execArgv: ["--no-node-snapshot", "--no-wasm-async-compilation", "--no-wasm-deopt"],
    // Twice the least number of cores, because many tests wait for a deadline.
    maxWorkers: 4,
    // No test is tried again, and none depends on the machine's speed: this only ends a test that waits for something that never happens.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    setupFiles: ["test/setup.ts"],
    sequence: { sequencer: LongestFirst },
    // `npm run test:node24` leaves out the attacks, the chaos tests and the package.
    projects: [
      project("unit", { include: UNIT, isolate: false, globalSetup: [] }),
      project("integration", {
        include: ["test/**/*.test.ts"],
        exclude: [...EXCLUDED, ...UNIT, ...OWN_PROCESS, ...HOSTILE, ...CHAOS, ...E2E],
        isolate: false,
      }),
      project("integration alone", { include: OWN_PROCESS }),
      project("e2e", {
        include: E2E,
        exclude: [...EXCLUDED, ...UNIT, ...PACKAGE],
        globalSetup: BUILT,
        isolate: false,
      }),
      project("e2e package", { include: PACKAGE, globalSetup: BUILT }),
      // Attacks run with dynamic code, which is the default; those that could differ without it run a second time.
      project("hostile without dynamic code", {
        include: DYNAMIC_CODE_OFF,
        env: { GLOVEBOX_TEST_DYNAMIC_CODE: "off" },
        isolate: false,
      }),
      project("hostile", { include: HOSTILE, isolate: false }),
      project("chaos", { include: CHAOS, isolate: false }),
    ],
  },
});
