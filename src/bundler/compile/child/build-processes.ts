// Keeps build processes between builds: a build in a running process takes half the time. A process that has read the source of one owner
// may be under that owner's control, so it builds for no other owner.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { loadSandboxArtifacts } from "../../artifacts/sandbox-artifacts.ts";
import { BuildProcess, BuildProcessLostError, toBuildFailure } from "./build-child.ts";
import type { BuildRequest, BuildResponse } from "./build-messages.ts";

export interface BuildProcessesOptions {
  /** Maximum number of processes that wait for their owner's next build. */
  readonly maxIdle: number;
  /** Path of the child's script. @default the script of Glovebox */
  readonly script?: string | undefined;
  /** Time in ms that a process waits for the next build of its owner. @default 10_000 */
  readonly idleMs?: number | undefined;
}

/** A response, and whether the process had built nothing before. Only then may other owners use it. */
export interface ProcessedBuild {
  readonly response: BuildResponse;
  readonly isFirst: boolean;
}

const IDLE_MS = 10_000;
/** Number of builds after which a process ends, so that esbuild's memory stays small. */
const MAX_BUILDS = 100;

interface IdleProcess {
  readonly process: BuildProcess;
  readonly owner: string;
  readonly timer: NodeJS.Timeout;
}

export class BuildProcesses implements AsyncDisposable {
  readonly #maxIdle: number;
  readonly #script: string | undefined;
  readonly #idleMs: number;
  /** Processes without a build, least recently used first. */
  readonly #idle = new Set<IdleProcess>();
  readonly #ending = new Set<Promise<void>>();
  #isDisposed = false;

  constructor({ maxIdle, script, idleMs = IDLE_MS }: BuildProcessesOptions) {
    this.#maxIdle = maxIdle;
    this.#script = script;
    this.#idleMs = idleMs;
  }

  /**
   * Runs a build. Without an owner, the process is new and ends with the build.
   * @throws {ToolError} BUNDLE_FAILED, CANCELLED, INTERNAL
   */
  async run(request: BuildRequest, owner: string | undefined, signal?: AbortSignal): Promise<ProcessedBuild> {
    const script = this.#script ?? (await loadSandboxArtifacts()).buildChildPath;
    if (signal?.aborted) throw new ToolError("CANCELLED", "The build was cancelled", { cause: signal.reason });
    const known = owner === undefined ? undefined : this.#take(owner);
    try {
      return await this.#runIn(known ?? new BuildProcess(script, request.limits.memoryMiB), request, owner, signal);
    } catch (thrown) {
      // A process that waited may have ended by itself, before or after it received the request.
      if (known === undefined || !(thrown instanceof BuildProcessLostError)) throw toBuildFailure(thrown);
    }
    try {
      return await this.#runIn(new BuildProcess(script, request.limits.memoryMiB), request, owner, signal);
    } catch (thrown) {
      throw toBuildFailure(thrown);
    }
  }

  /** Ends the processes of an owner that wait for a build. */
  async endOwner(owner: string): Promise<void> {
    await Promise.all([...this.#idle].filter((idle) => idle.owner === owner).map((idle) => this.#end(idle)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    for (const idle of this.#idle) void this.#end(idle);
    await Promise.all(this.#ending);
  }

  async #runIn(
    process: BuildProcess,
    request: BuildRequest,
    owner: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<ProcessedBuild> {
    const isFirst = process.builds === 0;
    let isReusable = false;
    try {
      const response = await process.run(request, signal);
      isReusable = owner !== undefined && response.ok && process.builds < MAX_BUILDS;
      return { response, isFirst };
    } finally {
      if (owner === undefined || !isReusable || !this.#keep(process, owner)) await process[Symbol.asyncDispose]();
    }
  }

  #take(owner: string): BuildProcess | undefined {
    // The most recently used one: the others may end.
    const idle = [...this.#idle].findLast((candidate) => candidate.owner === owner && candidate.process.isAlive);
    if (idle === undefined) return undefined;
    this.#forget(idle);
    return idle.process;
  }

  /** Returns false if the process is not kept. */
  #keep(process: BuildProcess, owner: string): boolean {
    if (this.#isDisposed || !process.isAlive) return false;
    const idle: IdleProcess = { process, owner, timer: setTimeout(() => void this.#end(idle), this.#idleMs).unref() };
    process.onEnd = () => void this.#end(idle);
    this.#idle.add(idle);
    const [oldest] = this.#idle;
    if (oldest !== undefined && this.#idle.size > this.#maxIdle) void this.#end(oldest);
    return true;
  }

  #forget(idle: IdleProcess): void {
    clearTimeout(idle.timer);
    idle.process.onEnd = () => undefined;
    this.#idle.delete(idle);
  }

  async #end(idle: IdleProcess): Promise<void> {
    this.#forget(idle);
    const ending = idle.process[Symbol.asyncDispose]();
    this.#ending.add(ending);
    await ending.finally(() => this.#ending.delete(ending));
  }
}
