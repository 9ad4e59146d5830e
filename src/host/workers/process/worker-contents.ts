// What a worker process has received and keeps: bundles, tools, isolates kept warm, and sessions. Mirrors the worker's own state, so that
// the host sends each thing once and knows how much memory the process may use.

import type { WorkerToolProfile } from "../../../sandbox/protocol/host-messages.ts";
import { setBounded } from "../../util/bounded-map.ts";
import type { CallOrder, SentBundle } from "../worker-job.ts";
import type { WorkerCall } from "./worker-call.ts";
import type { WorkerChannel } from "./worker-channel.ts";

const MiB = 1024 * 1024;
/** Isolates kept warm in one worker, see IsolatePool. */
const MAX_WARM = 16;
/**
 * Bytes of bundles and code caches that one worker may receive. It keeps them all its life, within the base memory of
 * its kind.
 */
const MAX_BUNDLE_BYTES = 32 * MiB;

/**
 * Isolates of a worker process, as the host counts them. The process creates further ones ahead for tools that are called often, at most 8, and
 * an isolate that fails is replaced when it is needed.
 */
export interface WorkerIsolates {
  /** Those with a call: one that runs, waits for the process to start, or has ended but has not stopped yet. */
  readonly running: number;
  /**
   * Those kept for the next call (`isolateLifetime: "tool"`), one for each tool and tenant, at most 16; and the
   * interpreter of an unused Python process.
   */
  readonly warm: number;
  /** Those of sessions in which no call runs. */
  readonly sessions: number;
}

/** A tenant that uses a tool in a process. */
export interface ToolUse {
  readonly tenantId: string;
  /** Isolates that it needs: the number of its running calls, but at least one. */
  readonly isolates: number;
}

const bytesOf = ({ code, codeCache }: SentBundle): number => code.length + codeCache.byteLength;

export class WorkerContents {
  readonly #channel: WorkerChannel;
  readonly #bundles = new Set<string>();
  #bundleBytes = 0;
  readonly #tools = new Map<WorkerToolProfile, number>();
  /** For each profile the tenant that called it last. */
  readonly #callers = new Map<WorkerToolProfile, string>();
  /** Memory limits in MiB of tools whose isolates may be kept warm, least recently used first. */
  readonly #warm = new Map<string, number>();
  #newestWarm = "";
  /** Memory limits in MiB of the sessions whose isolates are in the process. */
  readonly #sessions = new Map<number, number>();
  #lastToolId = 0;

  constructor(channel: WorkerChannel) {
    this.#channel = channel;
  }

  /** It has received as many bundles as one process may. */
  get isFull(): boolean {
    return this.#bundleBytes > MAX_BUNDLE_BYTES;
  }

  /** Whether session isolates would be lost with the process. */
  get hasSessions(): boolean {
    return this.#sessions.size > 0;
  }

  /** Records a bundle that the process has received in another way. */
  addBundle(sha256: string): void {
    this.#bundles.add(sha256);
  }

  /** Sends a bundle, unless the process has it. */
  sendBundle(bundle: SentBundle): void {
    if (this.#bundles.has(bundle.sha256)) return;
    this.#bundles.add(bundle.sha256);
    this.#bundleBytes += bytesOf(bundle);
    const message = { type: "bundle", sha256: bundle.sha256, modules: [...bundle.modules.names] } as const;
    this.#channel.write(message, [bundle.code, bundle.codeCache]);
  }

  /** Returns the id of a tool in the process. Sends its settings, unless the process has them. */
  sendTool(tool: WorkerToolProfile): number {
    const known = this.#tools.get(tool);
    if (known !== undefined) return known;
    this.#lastToolId += 1;
    const toolId = this.#lastToolId;
    this.#tools.set(tool, toolId);
    this.#channel.write({ type: "tool", toolId, ...tool });
    return toolId;
  }

  recordCaller(tool: WorkerToolProfile, tenantId: string): void {
    this.#callers.set(tool, tenantId);
  }

  /** Id that the worker knows the tool by; undefined if it was never sent. */
  toolIdOf(profile: WorkerToolProfile): number | undefined {
    return this.#tools.get(profile);
  }

  /** Key under which the call's isolate is kept for the next call; undefined if it is not kept. */
  keepWarm(order: CallOrder, memoryMiB: number): string | undefined {
    if (order.type === "extract" || order.tool.isolateLifetime !== "tool") return undefined;
    const key = `${this.sendTool(order.tool)} ${order.tenantId}`;
    if (key !== this.#newestWarm) setBounded(this.#warm, key, memoryMiB, MAX_WARM);
    this.#newestWarm = key;
    return key;
  }

  addSession(session: number, memoryMiB: number): void {
    this.#sessions.set(session, memoryMiB);
  }

  /** Returns whether the session was there. */
  deleteSession(session: number): boolean {
    return this.#sessions.delete(session);
  }

  /** Drops a tool that was sent for one call, as the worker does when the call has begun. */
  dropOneTimeTool(tool: WorkerToolProfile, bundle: SentBundle): void {
    this.#tools.delete(tool);
    this.#callers.delete(tool);
    if (this.#bundles.delete(bundle.sha256)) this.#bundleBytes -= bytesOf(bundle);
  }

  /** Tenants that use a tool in the process, in whose `calls` it may run. */
  usesOf(profile: WorkerToolProfile, calls: Iterable<WorkerCall>): readonly ToolUse[] {
    const toolId = this.#tools.get(profile);
    if (toolId === undefined) return [];
    // An isolate of a single call has no tenant until a call takes it. The worker decides how many it keeps.
    const caller = this.#callers.get(profile);
    if (profile.isolateLifetime !== "tool") return caller === undefined ? [] : [{ tenantId: caller, isolates: 1 }];
    const prefix = `${toolId} `;
    const running = [...calls];
    return [...this.#warm.keys()]
      .filter((key) => key.startsWith(prefix))
      .map((key) => {
        const count = running.filter(({ warmKey }) => warmKey === key).length;
        return { tenantId: key.slice(prefix.length), isolates: Math.max(1, count) };
      });
  }

  /** Releases the warm isolates of a tool, and its bundle if no other tool uses it. Running calls continue. */
  release(profile: WorkerToolProfile, bundle: SentBundle | undefined): void {
    const toolId = this.#tools.get(profile);
    if (toolId === undefined) return;
    this.#tools.delete(profile);
    this.#callers.delete(profile);
    for (const key of [...this.#warm.keys()]) if (key.startsWith(`${toolId} `)) this.#warm.delete(key);
    this.#newestWarm = "";
    const isShared = [...this.#tools.keys()].some(({ sha256 }) => sha256 === profile.sha256);
    const isForgotten = bundle !== undefined && !isShared && this.#bundles.delete(bundle.sha256);
    if (isForgotten) this.#bundleBytes -= bytesOf(bundle);
    this.#channel.write({ type: "forget-tool", toolId, bundle: isForgotten });
  }

  /** The isolates of the calls, and those that are kept and that no call uses. */
  isolatesOf(calls: Iterable<WorkerCall>): WorkerIsolates {
    const inUse = new Set<string | number | undefined>();
    let running = 0;
    for (const { warmKey, session } of calls) {
      running += 1;
      inUse.add(warmKey).add(session);
    }
    const countFree = (keys: Iterable<string | number>): number => [...keys].filter((key) => !inUse.has(key)).length;
    return { running, warm: countFree(this.#warm.keys()), sessions: countFree(this.#sessions.keys()) };
  }

  /** Sum of the memory limits in MiB of the calls, and of the isolates that are kept and that no call uses. */
  memoryMiBOf(calls: Iterable<WorkerCall>): number {
    let memoryMiB = 0;
    const inUse = new Set<string | number | undefined>();
    for (const { limits, warmKey, session } of calls) {
      memoryMiB += limits.memoryMiB;
      inUse.add(warmKey).add(session);
    }
    for (const [session, keptMiB] of this.#sessions) if (!inUse.has(session)) memoryMiB += keptMiB;
    for (const [key, warmMiB] of this.#warm) if (!inUse.has(key)) memoryMiB += warmMiB;
    return memoryMiB;
  }
}
