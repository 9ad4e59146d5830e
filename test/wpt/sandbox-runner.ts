// Runs a test file in a separate isolate with the prelude and without grants.
import { readFileSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import type { InvokeHeader } from "../../src/sandbox/protocol/guest-messages.ts";
import { createEngine, createLoadableBundle, type Engine } from "../../src/sandbox/worker/isolate/engine.ts";
import type { GuestListener } from "../../src/sandbox/worker/isolate/guest-call.ts";
import { createPreludeCache, ToolIsolate } from "../../src/sandbox/worker/isolate/tool-isolate.ts";
import { loadCrypto } from "../support/load-crypto.ts";
import { type FileResult, toScript } from "./script.ts";
import { TESTS_FOLDER, type TestFile } from "./tests.ts";

const HEADER: InvokeHeader = {
  granted: ["readResource"],
  denied: [],
  outputBytes: 64 * 1024 * 1024,
  logBytes: 0,
  logLines: 0,
  maxCapabilityCalls: 100_000,
  maxPendingCapabilityCalls: 1_000,
  timers: 100_000,
};
const MEMORY_MIB = 512;
/** A script that does not loop ends earlier. */
const GRACE_MS = 10_000;

let engine: Promise<Engine> | undefined;
async function makeEngine(): Promise<Engine> {
  const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
  return createEngine({
    preludeSource,
    loadCrypto,
    readPlatformModule,
    preludeCache: createPreludeCache({ preludeSource, readPlatformModule, loadCrypto }),
  });
}

/** Returns the text of a file that a test requests by its URL. The file must be inside the suite. */
export function readResource(test: TestFile, url: string): string {
  const path = url.replace(/[?#].*/, "");
  const file = path.startsWith("/") ? join(TESTS_FOLDER, path) : resolve(dirname(test.path), path);
  if (!file.startsWith(TESTS_FOLDER + sep)) throw new Error("There is no such resource");
  return readFileSync(file, "utf8");
}

export async function runInSandbox(test: TestFile): Promise<FileResult> {
  engine ??= makeEngine();
  const isolate = new ToolIsolate(await engine, { memoryMiB: MEMORY_MIB, features: [], coarseTime: false });
  const listener: GuestListener = {
    onLog() {},
    onProgress() {},
    onCapability(requestId, _name, text) {
      let envelope: object;
      try {
        envelope = { ok: true, value: readResource(test, JSON.parse(text) as string) };
      } catch {
        envelope = { ok: false, code: "TOOL_FAILED", message: "There is no such resource" };
      }
      isolate.deliver(requestId, JSON.stringify(envelope));
    },
  };
  const timer = setTimeout(() => void isolate.dispose("cpu"), test.timeoutMs + GRACE_MS);
  try {
    isolate.boot();
    const run = `(${toScript(test)})`;
    const code = `(async (register) => register({ default: (input, ctx) => ${run}(ctx.readResource) }))`;
    const loaded = await isolate.load(createLoadableBundle("0".repeat(64), code, new Uint8Array(0)), listener);
    if (loaded.outcome !== "ready") return { subtests: [], error: `${loaded.outcome}: ${loaded.text}` };
    const call = { header: JSON.stringify(HEADER), input: "{}", callId: "wpt", tenantId: "wpt" };
    const { outcome, text } = await isolate.call(call, listener);
    return outcome === "output" ? (JSON.parse(text) as FileResult) : { subtests: [], error: `${outcome}: ${text}` };
  } finally {
    clearTimeout(timer);
    await isolate.dispose();
  }
}
