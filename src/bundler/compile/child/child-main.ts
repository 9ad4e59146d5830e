// The bundler's child process: reads a request, builds it, writes the response, and waits for the next request. It is the only importer of
// esbuild. It exits when its parent does and when it uses too much memory. If a build takes too long, the parent kills the child together
// with esbuild.
import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { compileTool } from "../compile-tool.ts";
import type { RunEsbuild } from "../link-tool.ts";
import { BuildFrameReader, type BuildRequest, type BuildResponse, encodeBuildFrame } from "./build-messages.ts";
import { TextFacts } from "./text-facts.ts";

/** Interval of the memory check. In the worst observed case esbuild grew by 1 GB per second: 20 MB per interval. */
const MEMORY_CHECK_MS = 20;
const STOP_GRACE_MS = 100;
/** Share of the memory limit above which a process builds nothing more, so that the next build has enough. */
const REUSE_SHARE = 0.6;

/** The native process of esbuild. esbuild's API does not expose it, so it is taken from Node's diagnostics channel. */
let service: ChildProcess | undefined;
subscribe("child_process", (message) => {
  service = (message as { process: ChildProcess }).process;
});

async function endService(signal: NodeJS.Signals): Promise<void> {
  if (service === undefined || service.exitCode !== null || service.signalCode !== null) return;
  const exited = once(service, "exit");
  service.kill(signal);
  await Promise.race([exited, sleep(STOP_GRACE_MS)]);
}

/** Returns the resident bytes of the esbuild process, or 0 where /proc is unavailable. */
function serviceMemory(): number {
  try {
    const status = readFileSync(`/proc/${service?.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

const usedMiB = (): number => (serviceMemory() + process.memoryUsage.rss()) / (1024 * 1024);

/** Resolves only when the build exceeds its memory limit. */
async function watchMemory(limitMiB: number, signal: AbortSignal): Promise<BuildResponse> {
  while (usedMiB() <= limitMiB) await sleep(MEMORY_CHECK_MS, undefined, { signal });
  const message = `Build ran out of memory; the limit memoryMiB is ${limitMiB} MiB`;
  return {
    ok: false,
    problems: [
      {
        message,
        hint: "import only a part of a large package, simplify deeply nested source, or raise bundler.limits.memoryMiB",
      },
    ],
  };
}

/** Calls `answer` with each request. The parent waits for a response before it sends the next request. */
function readRequests(answer: (request: BuildRequest) => void): void {
  // The parent is trusted, and its own limits bound the request.
  let reader = new BuildFrameReader(2 ** 31);
  process.stdin.on("data", (chunk: Buffer) => {
    const text = reader.push(chunk);
    if (text === undefined) return;
    reader = new BuildFrameReader(2 ** 31);
    answer(JSON.parse(text) as BuildRequest);
  });
}

/** All requests come from one owner: see build-processes.ts. */
const facts = new TextFacts();

async function respond(request: BuildRequest, build: RunEsbuild): Promise<BuildResponse> {
  const watch = new AbortController();
  const outOfMemory = watchMemory(request.limits.memoryMiB, watch.signal);
  // Stopping the watch rejects it.
  outOfMemory.catch(() => undefined);
  try {
    return await Promise.race([compileTool(request, build, facts), outOfMemory]);
  } catch {
    // The process of esbuild died (for example by a stack overflow) or sent an invalid response. Its own message may name host paths.
    return { ok: false, problems: [{ message: "The bundler failed on this source" }] };
  } finally {
    watch.abort();
  }
}

async function answer(request: BuildRequest): Promise<void> {
  // Imported lazily, because a cell may not need esbuild.
  const response = await respond(request, async (options) => (await import("esbuild")).build(options));
  // A failed build may leave esbuild busy, and a large one leaves it large. The parent then starts another process.
  const isLast = !response.ok || usedMiB() > request.limits.memoryMiB * REUSE_SHARE;
  if (isLast) await endService("SIGKILL");
  process.stdout.write(encodeBuildFrame(response), () => {
    if (isLast) process.exit(0);
  });
}

// The parent keeps stdin open for as long as it needs the child.
process.stdin.on("end", async () => {
  await endService("SIGKILL");
  process.exit(0);
});
readRequests((request) => void answer(request));
