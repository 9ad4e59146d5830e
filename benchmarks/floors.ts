// Measures the lowest possible cost of an isolate in another process, or of a new isolate for each call.
import { spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import ivm from "isolated-vm";
import { loadSandboxArtifacts } from "../src/bundler/artifacts/sandbox-artifacts.ts";
import { DEFAULT_LIMITS } from "../src/sandbox/contract/limits.ts";
import { createEngine, createLoadableBundle } from "../src/sandbox/worker/isolate/engine.ts";
import { IGNORE_MESSAGES } from "../src/sandbox/worker/isolate/guest-call.ts";
import { createPreludeCache, ToolIsolate } from "../src/sandbox/worker/isolate/tool-isolate.ts";
import { loadCrypto } from "../test/support/load-crypto.ts";
import { ADD } from "./support/jobs.ts";
import { measure, times } from "./support/measure.ts";
import { createRawTool, runRawTool } from "./support/raw-isolate.ts";
import { RAW, RAW_COLD } from "./support/result.ts";
import { benchmarkPath } from "./support/tools.ts";

/** As long as a small call's frame. */
const MESSAGE = Buffer.alloc(120, "x");
const INPUT = JSON.stringify(ADD.input);
const CODE = `(async (register) => register({ default: ${ADD.source} }))`;
const HEADER = JSON.stringify({ granted: [], denied: [], ...DEFAULT_LIMITS });

const child = spawn(process.execPath, [benchmarkPath("support/echo-child.ts")], {
  stdio: ["ignore", "inherit", "inherit", "pipe"],
});
const socket = child.stdio[3] as Duplex;

function echo(): Promise<void> {
  return new Promise((resolve) => {
    socket.once("data", () => resolve());
    socket.write(MESSAGE);
  });
}

const raw = await createRawTool(CODE);
const subjects = {
  [RAW]: () => raw.call(INPUT),
  "a message to another process and back": echo,
  "both, one after the other": async () => {
    await echo();
    await raw.call(INPUT);
  },
};
const notes = [
  "The other process only sends back what it is sent: 120 bytes over the kind of socket that a worker has. A call behind a process wall is such a message and an apply, and all that is ours beside.",
];
await measure({
  name: "floors-wall",
  question: "What a call behind a process wall cannot do without",
  samples: 3_000,
  warmup: 300,
  subjects,
  notes,
});
await measure({
  name: "floors-wall-paced",
  question: "The same, one each 5 ms",
  samples: 600,
  warmup: 50,
  paceMs: 5,
  block: times(20, 5),
  subjects,
  notes,
});
raw.dispose();

const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
const engine = createEngine({
  preludeSource,
  loadCrypto,
  readPlatformModule,
  preludeCache: createPreludeCache({ preludeSource, readPlatformModule, loadCrypto }),
});
const bundle = createLoadableBundle("", CODE, new Uint8Array(0));

async function bareIsolate(): Promise<void> {
  const isolate = new ivm.Isolate({ memoryLimit: 128 });
  await isolate.createContext();
  isolate.dispose();
}

async function toolIsolate(): Promise<void> {
  const isolate = new ToolIsolate(engine, { memoryMiB: 128, features: [], coarseTime: false });
  isolate.boot();
  await isolate.load(bundle, IGNORE_MESSAGES);
  await isolate.call({ header: HEADER, input: INPUT, callId: "c", tenantId: "acme" }, IGNORE_MESSAGES);
  await isolate.settle();
  await isolate.dispose();
}

await measure({
  name: "floors-isolate",
  question: "What a new isolate for each call costs, all in one process",
  samples: 1_000,
  warmup: 50,
  subjects: {
    "an isolate and its context, nothing in it": bareIsolate,
    [RAW_COLD]: () => runRawTool(CODE, ADD.input),
    "Glovebox's own, with its prelude": toolIsolate,
  },
  notes: ["All three from an isolate to its disposal; the last two load the same small tool and call it once."],
});
socket.destroy();
child.kill("SIGKILL");
