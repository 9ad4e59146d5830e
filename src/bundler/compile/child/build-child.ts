// The parent's side of a build process: starts the child in its own process group, limits the time of each build and the size of its
// response, and makes sure that no process survives. build-processes.ts decides which builds share a process.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { loadSandboxArtifacts } from "../../artifacts/sandbox-artifacts.ts";
import type { BundleLimits } from "../../tool-bundle.ts";
import { BuildFrameReader, type BuildRequest, type BuildResponse, encodeBuildFrame } from "./build-messages.ts";
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

/**
 * Go collects garbage when the heap has grown by this percentage. With the default, 100, a quarter of esbuild's CPU time for a zod tool is
 * garbage collection (107 instead of 79 ms), and it uses 90 instead of 200 MB.
 */
const GO_GC_PERCENT = 400;
/** Share of the memory limit from which on Go collects garbage as often as necessary. The heap of a build that needs more still grows. */
const GO_MEMORY_SHARE = 0.45;

function startChild(script: string, memoryMiB: number): ChildProcess {
  return spawn(process.execPath, [...NODE_FLAGS, script], {
    // An own process group, so that esbuild is killed too.
    detached: true,
    // Nothing from the host: ESBUILD_BINARY_PATH would choose the program to run. esbuild inherits these two.
    env: { GOGC: String(GO_GC_PERCENT), GOMEMLIMIT: `${Math.floor(memoryMiB * GO_MEMORY_SHARE)}MiB` },
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

/** The process exited or closed its pipe before it had sent a response. */
export class BuildProcessLostError extends Error {
  override readonly name = "BuildProcessLostError";
}

/** Receives the response of the build that runs. */
interface OpenBuild {
  readonly reader: BuildFrameReader;
  readonly resolve: (text: string) => void;
  readonly reject: (error: Error) => void;
}

/** A child process that builds one request at a time, together with its esbuild. */
export class BuildProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  #open: OpenBuild | undefined;
  #lost: Error | undefined;
  #builds = 0;
  /** Called when the process ends while no build runs in it. */
  onEnd: () => void = () => undefined;

  /**
   * @param script path of the child's script
   * @param memoryMiB memory limit of its builds
   */
  constructor(script: string, memoryMiB: number) {
    this.#child = startChild(script, memoryMiB);
    this.#child.once("error", (error) =>
      this.#lose(bundleFailed("The process of the bundler could not be started", error)),
    );
    this.#child.once("close", () => this.#lose(new BuildProcessLostError()));
    // A child that exits early closes the pipe while it is written to. Its exit is reported above.
    this.#child.stdin?.on("error", () => undefined);
    this.#child.stdout?.on("data", (chunk: Buffer) => this.#receive(chunk));
  }

  /** Number of builds that were started in this process. Once it is 1 or more, the process has read source of a tool. */
  get builds(): number {
    return this.#builds;
  }

  get isAlive(): boolean {
    return this.#lost === undefined && isRunning(this.#child);
  }

  /**
   * Builds one request. If it rejects, the caller ends the process.
   * @throws {ToolError} BUNDLE_FAILED, CANCELLED
   * @throws {BuildProcessLostError} if the process ends
   */
  async run(request: BuildRequest, signal?: AbortSignal): Promise<BuildResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const { ended, disarm } = watchDeadline(request.limits, signal);
    this.#builds += 1;
    this.#setReferenced(true);
    try {
      if (this.#lost !== undefined) throw this.#lost;
      this.#open = { reader: new BuildFrameReader(maxResponseBytes(request.limits)), resolve, reject };
      this.#child.stdin?.write(encodeBuildFrame(request));
      return parseResponse(await Promise.race([promise, ended]));
    } finally {
      disarm();
      this.#open = undefined;
      this.#setReferenced(false);
    }
  }

  /** Ends the process and its esbuild. When the promise settles, neither is running. Disposing twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#setReferenced(true);
    await endChild(this.#child);
  }

  /** A process without a build does not keep the host alive. */
  #setReferenced(isReferenced: boolean): void {
    const { stdin, stdout } = this.#child as unknown as { readonly [name: string]: NodeJS.RefCounted | null };
    for (const handle of [this.#child, stdin, stdout]) {
      if (isReferenced) handle?.ref();
      else handle?.unref();
    }
  }

  #receive(chunk: Buffer): void {
    // A response without a request is an attack, or a defect. The process is not used again.
    if (this.#open === undefined) {
      killGroup(this.#child);
      return;
    }
    const { reader, resolve, reject } = this.#open;
    try {
      const text = reader.push(chunk);
      if (text === undefined) return;
      this.#open = undefined;
      if (!reader.isExact) killGroup(this.#child);
      resolve(text);
    } catch (error) {
      reject(bundleFailed("The bundle and its source map are too large to transfer", error));
    }
  }

  #lose(error: Error): void {
    this.#lost ??= error;
    if (this.#open === undefined) this.onEnd();
    this.#open?.reject(this.#lost);
  }
}

/** Reports a process that ended during a build as a failure of the build. */
export const toBuildFailure = (thrown: unknown): unknown =>
  thrown instanceof BuildProcessLostError
    ? bundleFailed("The process of the bundler exited before it had built this source")
    : thrown;

/**
 * Runs one build in a fresh child process. When the promise settles, neither the child nor esbuild is running.
 * @throws {ToolError} BUNDLE_FAILED, CANCELLED, INTERNAL
 */
export async function runBuild(request: BuildRequest, signal?: AbortSignal): Promise<BuildResponse> {
  const { buildChildPath } = await loadSandboxArtifacts();
  if (signal?.aborted) throw cancelled(signal);
  await using child = new BuildProcess(buildChildPath, request.limits.memoryMiB);
  try {
    return await child.run(request, signal);
  } catch (thrown) {
    throw toBuildFailure(thrown);
  }
}
