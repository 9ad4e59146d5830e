// Writes docs/npm-compatibility.md: every package of packages.ts bundled and used in the sandbox, and what it gives held against what it
// gives in Node. `node test/npm/run.ts [NAME…]`, after `npm install --ignore-scripts` in this folder; with names nothing is written.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { setFlagsFromString } from "node:v8";
import * as esbuild from "esbuild";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { buildLocated } from "../../src/bundler/bundle-tool.ts";
import { compileTool } from "../../src/bundler/compile/compile-tool.ts";
import { locateTool } from "../../src/bundler/locate/tool-location.ts";
import { DEFAULT_BUNDLE_LIMITS, type ToolBundle } from "../../src/bundler/tool-bundle.ts";
import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";
import { createEngine, createLoadableBundle } from "../../src/sandbox/worker/isolate/engine.ts";
import { IGNORE_MESSAGES } from "../../src/sandbox/worker/isolate/guest-call.ts";
import { createPreludeCache, ToolIsolate } from "../../src/sandbox/worker/isolate/tool-isolate.ts";
import { loadCrypto } from "../support/load-crypto.ts";
import { PACKAGES } from "./packages.ts";

const FOLDER = import.meta.dirname;
const TOOLS = join(FOLDER, "node_modules", ".glovebox");
const REPORT = join(FOLDER, "..", "..", "docs", "npm-compatibility.md");
/** Room for packages that are themselves compilers. */
const LIMITS = { ...DEFAULT_BUNDLE_LIMITS, timeoutMs: 200_000 };
const CALL_MS = 120_000;
const MEMORY_MIB = 256;
const HEADER = {
  granted: [],
  denied: [],
  outputBytes: 8 * 1024 * 1024,
  logBytes: 256 * 1024,
  logLines: 1_000,
  maxCapabilityCalls: 0,
  maxPendingCapabilityCalls: 0,
  timers: 1_000,
};

interface Outcome {
  readonly name: string;
  readonly version: string;
  /** Undefined where it passes. */
  readonly problem?: string;
  /** Granted in addition to dynamic code. */
  readonly features?: readonly EngineFeature[];
  readonly bundleBytes?: number;
  readonly coldMs?: number;
}

// As in a worker: without it WebAssembly.compile() in an isolate never settles.
setFlagsFromString("--no-wasm-async-compilation");
const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
const engine = createEngine({
  preludeSource,
  loadCrypto,
  readPlatformModule,
  preludeCache: createPreludeCache({ preludeSource, readPlatformModule, loadCrypto }),
});

async function bundle(path: string): Promise<ToolBundle> {
  const options = { root: FOLDER, limits: LIMITS };
  const built = await buildLocated(locateTool({ path }, options, LIMITS), options, (request) =>
    compileTool(request, esbuild.build),
  );
  return built.bundle;
}

/** From nothing to the result: isolate, prelude, bundle, call. No code cache but the prelude's. */
async function runInSandbox(
  code: string,
  features: readonly EngineFeature[],
): Promise<{ readonly coldMs: number; readonly outcome: string; readonly text: string }> {
  const started = performance.now();
  const isolate = new ToolIsolate(engine, {
    memoryMiB: MEMORY_MIB,
    features: ["stringToCode", ...features],
    coarseTime: false,
  });
  const clock = setTimeout(() => void isolate.dispose("cpu"), CALL_MS);
  try {
    isolate.boot();
    const loaded = await isolate.load(createLoadableBundle("0".repeat(64), code, new Uint8Array(0)), IGNORE_MESSAGES);
    const call = { header: JSON.stringify(HEADER), input: "{}", callId: "c1", tenantId: "npm" };
    const end = loaded.outcome === "ready" ? await isolate.call(call, IGNORE_MESSAGES) : loaded;
    return { coldMs: performance.now() - started, outcome: end.outcome, text: end.text };
  } finally {
    clearTimeout(clock);
    await isolate.dispose();
  }
}

/** A failure's first words. */
function words(text: string): string {
  const [line = ""] = text.split("\n");
  return line.replaceAll("|", "\\|").slice(0, 160);
}

function readError(outcome: string, text: string): string {
  if (outcome !== "thrown" && outcome !== "rejected") return outcome;
  const { name, message } = JSON.parse(text) as { readonly name: string; readonly message: string };
  return words(`${name}: ${message}`);
}

function versionOf(name: string): string {
  return (
    JSON.parse(readFileSync(join(FOLDER, "node_modules", name, "package.json"), "utf8")) as { readonly version: string }
  ).version;
}

/** The same file in Node itself. */
async function runInNode(path: string): Promise<unknown> {
  const { default: run } = (await import(path)) as { readonly default: () => unknown };
  return JSON.parse(JSON.stringify((await run()) ?? null));
}

async function tryPackage(name: string, source: string, features: readonly EngineFeature[]): Promise<Outcome> {
  const version = versionOf(name);
  const path = join(TOOLS, `${name.replaceAll("/", "-")}.mjs`);
  writeFileSync(path, source);
  const expected = await runInNode(path);
  let built: ToolBundle;
  try {
    built = await bundle(path);
  } catch (error) {
    return { name, version, problem: words((error as Error).message) };
  }
  const { code } = built;
  const { coldMs, outcome, text } = await runInSandbox(code, features);
  const measured = { name, version, features, bundleBytes: code.length, coldMs };
  if (outcome !== "output") return { ...measured, problem: readError(outcome, text) };
  if (isDeepStrictEqual(JSON.parse(text), expected)) return measured;
  return {
    ...measured,
    problem: words(`gives ${text.slice(0, 60)}, in Node ${JSON.stringify(expected).slice(0, 60)}`),
  };
}

function row({ name, version, problem, features = [], bundleBytes, coldMs }: Outcome): string {
  const passes = features.length === 0 ? "pass" : `pass with ${features.join(", ")}`;
  const size = bundleBytes === undefined ? "" : `${Math.ceil(bundleBytes / 1024)} KB`;
  const cold = coldMs === undefined ? "" : `${Math.round(coldMs)} ms`;
  return `| ${name} | ${version} | ${problem ?? passes} | ${size} | ${cold} |`;
}

function report(outcomes: readonly Outcome[]): string {
  const passed = outcomes.filter(({ problem }) => problem === undefined).length;
  return `# npm packages in the sandbox

Written by \`test/npm/run.ts\`. Each package is bundled as a tool's import would be, used in a fresh isolate (${MEMORY_MIB} MiB, no capability,
\`eval\` and \`Function\` allowed), and what it gives is compared with what the same file gives in Node ${process.version}. Bundles are not minified. Cold is the
time from no isolate at all to the result, without a code cache for bundle or platform, on a machine that did other things too.

**${passed} of ${outcomes.length} pass (${((passed / outcomes.length) * 100).toFixed(1)} %).**

| package | version | result | bundle | cold |
|---|---|---|---|---|
${outcomes.map(row).join("\n")}
`;
}

const wanted = process.argv.slice(2);
const chosen = wanted.length === 0 ? PACKAGES : PACKAGES.filter(([name]) => wanted.includes(name));
mkdirSync(TOOLS, { recursive: true });
const outcomes: Outcome[] = [];
for (const [name, source, features = []] of chosen) {
  const outcome = await tryPackage(name, source, features).catch((error: unknown): Outcome => {
    return { name, version: "", problem: words(`not in Node: ${(error as Error).message}`) };
  });
  outcomes.push(outcome);
  if (outcome.problem !== undefined) console.log(row(outcome));
}
rmSync(TOOLS, { recursive: true });
console.log(`${outcomes.filter(({ problem }) => problem === undefined).length} of ${outcomes.length} pass`);
if (wanted.length === 0) {
  mkdirSync(join(REPORT, ".."), { recursive: true });
  writeFileSync(REPORT, report(outcomes));
}
process.exit(0);
