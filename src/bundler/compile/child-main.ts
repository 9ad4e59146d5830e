// The bundler's child process: reads one request, builds it, writes one response and exits. It is the only importer of esbuild. It also
// exits when its parent does or when a build uses too much memory. If a build takes too long, the parent kills the child together with
// esbuild.
import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type BuildRequest, type BuildResponse, encodeFrame, FrameReader } from "./build-messages.ts";
import { compileTool } from "./compile-tool.ts";
import type { RunEsbuild } from "./link-tool.ts";

/** Interval of the memory check. In the worst observed case esbuild grew by 1 GB per second: 20 MB per interval. */
const MEMORY_CHECK_MS = 20;
const STOP_GRACE_MS = 100;

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

/** Resolves only when the build exceeds its memory limit. */
async function watchMemory(limitMiB: number): Promise<BuildResponse> {
  while (serviceMemory() + process.memoryUsage.rss() <= limitMiB * 1024 * 1024) await sleep(MEMORY_CHECK_MS);
  const message = `Build ran out of memory; the limit memoryMiB is ${limitMiB} MiB`;
  return {
    ok: false,
    problems: [{ message, hint: "simplify source that is deeply nested or expands to a very large value" }],
  };
}

async function readRequest(): Promise<BuildRequest> {
  // The parent is trusted, and its own limits bound the request.
  const reader = new FrameReader(2 ** 31);
  return await new Promise((resolve) => {
    process.stdin.on("data", (chunk: Buffer) => {
      const text = reader.push(chunk);
      if (text !== undefined) resolve(JSON.parse(text) as BuildRequest);
    });
  });
}

async function respond(request: BuildRequest, build: RunEsbuild): Promise<BuildResponse> {
  try {
    return await Promise.race([compileTool(request, build), watchMemory(request.limits.memoryMiB)]);
  } catch {
    // The process of esbuild died (for example by a stack overflow) or sent an invalid response. Its own message may name host paths.
    return { ok: false, problems: [{ message: "The bundler failed on this source" }] };
  }
}

async function main(): Promise<void> {
  // The parent keeps stdin open for as long as it needs the child.
  process.stdin.on("end", async () => {
    await endService("SIGKILL");
    process.exit(0);
  });
  const request = await readRequest();
  // Imported lazily, because a cell may not need esbuild.
  const response = await respond(request, async (options) => (await import("esbuild")).build(options));
  await endService("SIGKILL");
  process.stdout.write(encodeFrame(response), () => process.exit(0));
}

void main();
