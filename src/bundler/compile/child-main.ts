// The bundler's child process: reads one request, builds, writes one answer, ends. The one importer of esbuild. It ends too when
// its parent does, and when a build takes too much memory; its parent kills it, and esbuild with it, when it takes too long.
import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type BuildRequest, type BuildResponse, encodeFrame, FrameReader } from "./build-messages.ts";
import { compileTool } from "./compile-tool.ts";
import type { RunEsbuild } from "./link-tool.ts";

/** Esbuild grew by 1 GB a second in the worst case seen: 20 ms are 20 MB. */
const MEMORY_CHECK_MS = 20;
const STOP_GRACE_MS = 100;

/** esbuild's native service, as Node tells of it; esbuild's own API keeps its process to itself. */
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

/** Resident bytes of the esbuild service; 0 where /proc does not tell. */
function serviceMemory(): number {
  try {
    const status = readFileSync(`/proc/${service?.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Settles only once the build has taken more than it may. */
async function watchMemory(limitMiB: number): Promise<BuildResponse> {
  while (serviceMemory() + process.memoryUsage.rss() <= limitMiB * 1024 * 1024) await sleep(MEMORY_CHECK_MS);
  const message = `Building the tool took more memory than it may; the limit memoryMiB is ${limitMiB} MiB`;
  return { ok: false, problems: [{ message, hint: "the source nests or multiplies something too deep to build" }] };
}

async function readRequest(): Promise<BuildRequest> {
  // The parent is trusted, and what it sends is bounded by its own limits.
  const reader = new FrameReader(2 ** 31);
  return await new Promise((resolve) => {
    process.stdin.on("data", (chunk: Buffer) => {
      const text = reader.push(chunk);
      if (text !== undefined) resolve(JSON.parse(text) as BuildRequest);
    });
  });
}

async function answer(request: BuildRequest, build: RunEsbuild): Promise<BuildResponse> {
  try {
    return await Promise.race([compileTool(request, build), watchMemory(request.limits.memoryMiB)]);
  } catch {
    // esbuild's service died (a stack overflow, say), or an answer of it made no sense: its own words may name host paths.
    return { ok: false, problems: [{ message: "The bundler gave up on this source" }] };
  }
}

async function main(): Promise<void> {
  // The parent holds our stdin open for as long as it wants us.
  process.stdin.on("end", async () => {
    await endService("SIGKILL");
    process.exit(0);
  });
  const request = await readRequest();
  // A cell may do without it.
  const response = await answer(request, async (options) => (await import("esbuild")).build(options));
  await endService("SIGKILL");
  process.stdout.write(encodeFrame(response), () => process.exit(0));
}

void main();
