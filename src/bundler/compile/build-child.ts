// The parent's side of a build: starts the child in a process group of its own, bounds its time and its answer, and leaves nothing running.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { loadSandboxArtifacts } from "../artifacts/sandbox-artifacts.ts";
import type { BundleLimits } from "../tool-bundle.ts";
import { type BuildRequest, type BuildResponse, encodeFrame, FrameReader } from "./build-messages.ts";
import { BuildResponseSchema } from "./build-response.ts";

/** A child that was told to end reaps esbuild and ends within a few ms; past this it is killed with its whole group. */
const END_GRACE_MS = 250;
const ANSWER_OVERHEAD_BYTES = 16 * 1024 * 1024;
/** The child writes nothing, connects to nothing and starts nothing but esbuild; this costs no time that could be measured. */
const PERMISSION_FLAGS = ["--permission", "--allow-fs-read=*", "--allow-child-process"];
/** What is large lives in esbuild's process. */
const NODE_FLAGS = ["--no-warnings", "--max-old-space-size=512", ...PERMISSION_FLAGS];

function bundleFailed(message: string, cause?: unknown): ToolError {
  return new ToolError("BUNDLE_FAILED", message, { details: { problems: [{ message }] }, cause });
}

function cancelled(signal: AbortSignal | undefined): ToolError {
  return new ToolError("CANCELLED", "The build was cancelled", { cause: signal?.reason });
}

function startChild(script: string): ChildProcess {
  return spawn(process.execPath, [...NODE_FLAGS, script], {
    // A group of its own, so that esbuild can be killed with it. No environment: ESBUILD_BINARY_PATH would name what we run.
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
    // The group is gone, or (Windows) there are none.
    child.kill("SIGKILL");
  }
}

/** Lets the child reap esbuild and end; kills the whole group if it does not, or if it ended in another way than its own. */
async function endChild(child: ChildProcess): Promise<void> {
  if (isRunning(child)) {
    child.stdin?.destroy();
    const timer = setTimeout(() => killGroup(child), END_GRACE_MS);
    await once(child, "exit").catch(() => undefined);
    clearTimeout(timer);
  }
  // A child that was killed or crashed did not reap esbuild; one that ended in order leaves no group.
  if (child.exitCode !== 0) killGroup(child);
}

/** What the largest allowed bundle needs as JSON text: code and map escaped, the tool's own text in the map. */
function maxAnswerBytes(limits: BundleLimits): number {
  return 4 * (limits.outputBytes + limits.sourceBytes) + ANSWER_OVERHEAD_BYTES;
}

async function readAnswer(child: ChildProcess, maxBytes: number): Promise<string> {
  const reader = new FrameReader(maxBytes);
  return await new Promise((resolve, reject) => {
    child.once("error", (error) => reject(bundleFailed("The bundler's process could not be started", error)));
    child.once("close", () => reject(bundleFailed("The bundler ended before it was done with this source")));
    // A child that ends early closes the pipe under us; its end is what counts.
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("data", (chunk: Buffer) => {
      try {
        const text = reader.push(chunk);
        if (text !== undefined) resolve(text);
      } catch (error) {
        reject(bundleFailed("The bundle and its source map are too large to take over", error));
      }
    });
  });
}

function parseAnswer(text: string): BuildResponse {
  const parsed = BuildResponseSchema.safeParse(JSON.parse(text));
  if (!parsed.success) throw bundleFailed("The bundler's answer was not what it should be", parsed.error);
  return parsed.data;
}

/** Rejects when the build's time is up or its caller has gone; `disarm` ends the watch. */
function watchEnd(limits: BundleLimits, signal?: AbortSignal): { readonly ended: Promise<never>; disarm(): void } {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const message = `Building the tool took longer than it may; the limit timeoutMs is ${limits.timeoutMs} ms`;
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
 * Runs one build in a fresh child; when this settles, neither the child nor esbuild is left.
 * @throws {ToolError} BUNDLE_FAILED, CANCELLED, INTERNAL
 */
export async function runBuild(request: BuildRequest, signal?: AbortSignal): Promise<BuildResponse> {
  const { buildChildPath } = await loadSandboxArtifacts();
  if (signal?.aborted) throw cancelled(signal);
  const { ended, disarm } = watchEnd(request.limits, signal);
  const child = startChild(buildChildPath);
  try {
    const answer = readAnswer(child, maxAnswerBytes(request.limits));
    child.stdin?.write(encodeFrame(request));
    return parseAnswer(await Promise.race([answer, ended]));
  } finally {
    disarm();
    await endChild(child);
  }
}
