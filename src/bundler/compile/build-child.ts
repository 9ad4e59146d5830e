// The parent's side of a build: starts the child in its own process group, limits its time and the size of its response, and makes sure
// that no process survives.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { loadSandboxArtifacts } from "../artifacts/sandbox-artifacts.ts";
import type { BundleLimits } from "../tool-bundle.ts";
import { type BuildRequest, type BuildResponse, encodeFrame, FrameReader } from "./build-messages.ts";
import { BuildResponseSchema } from "./build-response.ts";

/** Time in ms in which a child reaps esbuild and exits, usually a few ms. After it the child is killed with its process group. */
const END_GRACE_MS = 250;
const RESPONSE_OVERHEAD_BYTES = 16 * 1024 * 1024;
/** The child writes nothing, connects to nothing and starts nothing except esbuild. The flags have no measurable cost. */
const PERMISSION_FLAGS = ["--permission", "--allow-fs-read=*", "--allow-child-process"];
/** 512 MB are enough for the child, because large data lives in the process of esbuild. */
const NODE_FLAGS = ["--no-warnings", "--max-old-space-size=512", ...PERMISSION_FLAGS];

function bundleFailed(message: string, cause?: unknown): ToolError {
  return new ToolError("BUNDLE_FAILED", message, { details: { problems: [{ message }] }, cause });
}

function cancelled(signal: AbortSignal | undefined): ToolError {
  return new ToolError("CANCELLED", "The build was cancelled", { cause: signal?.reason });
}

function startChild(script: string): ChildProcess {
  return spawn(process.execPath, [...NODE_FLAGS, script], {
    // An own process group, so that esbuild is killed too. An empty environment: ESBUILD_BINARY_PATH would choose the program to run.
    detached: true,
    env: {},
    cwd: "/",
    stdio: ["pipe", "pipe", "ignore"],
    windowsHide: true,
  });
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group is gone, or the platform (Windows) has no process groups.
    child.kill("SIGKILL");
  }
}

/** Lets the child reap esbuild and exit. Kills the process group if it does not exit in time, or exits with an error. */
async function endChild(child: ChildProcess): Promise<void> {
  if (isRunning(child)) {
    child.stdin?.destroy();
    const timer = setTimeout(() => killGroup(child), END_GRACE_MS);
    await once(child, "exit").catch(() => undefined);
    clearTimeout(timer);
  }
  // A child that was killed or crashed did not reap esbuild. A child that exited normally leaves no group.
  if (child.exitCode !== 0) killGroup(child);
}

/** Returns the size of the largest allowed response as JSON text: code and source map escaped, with the tool's own text in the map. */
function maxResponseBytes(limits: BundleLimits): number {
  return 4 * (limits.outputBytes + limits.sourceBytes) + RESPONSE_OVERHEAD_BYTES;
}

async function readResponse(child: ChildProcess, maxBytes: number): Promise<string> {
  const reader = new FrameReader(maxBytes);
  return await new Promise((resolve, reject) => {
    child.once("error", (error) => reject(bundleFailed("The process of the bundler could not be started", error)));
    child.once("close", () =>
      reject(bundleFailed("The process of the bundler exited before it had built this source")),
    );
    // A child that exits early closes the pipe while it is written to. Its exit is reported above.
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("data", (chunk: Buffer) => {
      try {
        const text = reader.push(chunk);
        if (text !== undefined) resolve(text);
      } catch (error) {
        reject(bundleFailed("The bundle and its source map are too large to transfer", error));
      }
    });
  });
}

function parseResponse(text: string): BuildResponse {
  const parsed = BuildResponseSchema.safeParse(JSON.parse(text));
  if (!parsed.success) throw bundleFailed("The bundler sent an invalid response", parsed.error);
  return parsed.data;
}

/** Rejects when the time of the build is up or the caller aborts. `disarm` removes the timer and the listener. */
function watchDeadline(limits: BundleLimits, signal?: AbortSignal): { readonly ended: Promise<never>; disarm(): void } {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const message = `Build timed out; the limit timeoutMs is ${limits.timeoutMs} ms`;
  const timer = setTimeout(() => reject(bundleFailed(message)), limits.timeoutMs);
  const onAbort = (): void => reject(cancelled(signal));
  signal?.addEventListener("abort", onAbort, { once: true });
  const disarm = (): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  };
  return { ended, disarm };
}

/**
 * Runs one build in a fresh child process. When the promise settles, neither the child nor esbuild is running.
 * @throws {ToolError} BUNDLE_FAILED, CANCELLED, INTERNAL
 */
export async function runBuild(request: BuildRequest, signal?: AbortSignal): Promise<BuildResponse> {
  const { buildChildPath } = await loadSandboxArtifacts();
  if (signal?.aborted) throw cancelled(signal);
  const { ended, disarm } = watchDeadline(request.limits, signal);
  const child = startChild(buildChildPath);
  try {
    const response = readResponse(child, maxResponseBytes(request.limits));
    child.stdin?.write(encodeFrame(request));
    return parseResponse(await Promise.race([response, ended]));
  } finally {
    disarm();
    await endChild(child);
  }
}
