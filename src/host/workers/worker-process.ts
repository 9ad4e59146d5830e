// Starts, drives, monitors and kills one worker process. The host does not trust the worker: it bounds, parses and
// checks every message against what it requested, and ends the process on an invalid one. A compromised worker can at
// worst answer the calls that it was given.

import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { type Frame, MAX_FRAME_BYTES } from "../../sandbox/protocol/frames.ts";
import {
  MAX_INSPECT_BYTES,
  MAX_MESSAGE_BYTES,
  PROTOCOL_VERSION,
  type ToolMessage,
  WorkerMessageSchema,
} from "../../sandbox/protocol/messages.ts";
import type { PlatformModuleName } from "../../sandbox/protocol/platform-modules.ts";
import type { Deterministic } from "../../sandbox/worker/seeded-bytes.ts";
import { setBounded } from "../util/bounded-map.ts";
import { StayAwake } from "../util/stay-awake.ts";
import type { EngineCache } from "./engine-cache.ts";
import type { Launcher, StartOptions } from "./hardening/launcher.ts";
import { childrenOf, LOWEST_PRIORITY } from "./health/process-meter.ts";
import { type HealthFailure, ProcessMonitor } from "./health/process-monitor.ts";
import type { InspectedIsolate, Inspector } from "./inspected-isolate.ts";
import { type CallListener, type CallMessage, OpenCall } from "./open-call.ts";
import { PythonSetup, type PythonSources } from "./python-setup.ts";
import type { LaunchedProcess } from "./spawn/launched-process.ts";
import type { Ending } from "./spawn/spawn-command.ts";
import { WorkerChannel } from "./worker-channel.ts";
import { WORKER_KINDS, type WorkerKind } from "./worker-kind.ts";

/** How a tool's calls run. The host sends a profile to a worker once and identifies it there by object identity. */
export type WorkerToolProfile = Omit<ToolMessage, "type" | "toolId">;

/**
 * `once`: tool and bundle belong to this call only, and the worker drops them when the call has begun. `resumes`: an
 * earlier call of the session has left its isolate.
 */
export interface SessionOrder {
  readonly id: number;
  readonly once: boolean;
  readonly resumes?: true | undefined;
}

/** Instruction from the pool to a worker. */
export type CallOrder =
  | {
      readonly type: "call";
      readonly tool: WorkerToolProfile;
      readonly callId: string;
      readonly tenantId: string;
      /** The caller reads chunks as the tool yields them. */
      readonly stream?: true | undefined;
      readonly deterministic?: Deterministic | undefined;
      /** The session whose isolate the call runs in. The isolate outlives the call. */
      readonly session?: SessionOrder | undefined;
      /** Only loads the tool, for a later call. `like` is the id of the tool whose call rate predicts this one's. */
      readonly prewarm?: { readonly like: number | undefined } | undefined;
    }
  | ({ readonly type: "extract" } & Pick<ToolMessage, "sha256" | "limits" | "features" | "coarseTime">);

/** A bundle. It is sent once to each worker that runs it. */
export interface SentBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: Uint8Array;
  /** Platform modules that its isolates use, as far as known when a worker receives the bundle. */
  readonly modules: { readonly names: readonly PlatformModuleName[] };
}

/** A call together with everything that a worker needs to run it. */
export interface WorkerJob {
  readonly order: CallOrder;
  readonly bundle: SentBundle;
  /** JSON text, or its bytes where it is large. */
  readonly input: string | Uint8Array;
  /** Binary attachments of the input: a BytesHeader as JSON text, and the bytes. */
  readonly inputBytes?: readonly [header: string, data: Uint8Array] | undefined;
  /** Returns the remaining time of the call in ms. */
  readonly leftMs?: (() => number) | undefined;
}

export interface WorkerSources {
  /** Disposed together with the worker manager. */
  readonly launcher: Launcher;
  readonly preludeSource: string;
  readonly preludeCache: EngineCache;
  readonly moduleCache: EngineCache;
  /** For Python processes; undefined until a Python tool is registered. */
  readonly python?: PythonSources | undefined;
  /** Set only if an operator at the host's terminal enabled inspection. */
  readonly inspector?: Inspector | undefined;
}

/** How a process is started, and of which kind. */
export interface WorkerStart extends Omit<StartOptions, "dataBytes"> {
  /** @default "plain" */
  readonly kind?: WorkerKind | undefined;
  readonly dataBytes?: number | undefined;
}

/** Longest time in ms from `ended` or `cancel` to `released`. After that only SIGKILL can stop the isolate. */
const RELEASE_MS = 200;
/** The same for a call that is cancelled while its process reads no messages. Then only SIGKILL stops it early. */
const INSIDE_RELEASE_MS = 20;
/** Age in ms from which a call no longer counts as a short one. */
const SHORT_CALL_MS = 50;
/** Longest time in ms until a new worker reports `ready`. */
const START_MS = 10_000;
/**
 * The same until the interpreter is loaded. It takes seconds if the process also makes the snapshot, and far longer on
 * a busy machine.
 */
const PYTHON_START_MS = 60_000;
/**
 * With idle scheduling a process may get no CPU time while others keep all cores busy. After this many ms it starts at
 * normal priority.
 */
const MAX_IDLE_START_MS = 250;
/** Time in ms to read the remaining output after SIGKILL or after the worker's exit. */
const DRAIN_MS = 250;
/**
 * Most bytes that the host buffers for a worker that does not read. An attacker could otherwise exhaust the host's
 * memory.
 */
const MAX_PENDING_BYTES = 128 * 1024 * 1024;
const MiB = 1024 * 1024;
/** Frame limit until a call allows larger frames. */
const FIRST_FRAME_BYTES = MiB;
/** V8's heap limit is a guideline (README of isolated-vm). Memory beyond twice the limit has bypassed it. */
const GROWTH_FACTOR = 2;
/** Isolates kept warm in one worker, see IsolatePool. */
const MAX_WARM = 16;
/**
 * Bytes of bundles and code caches that one worker may receive. It keeps them all its life, within the base memory of
 * its kind.
 */
const MAX_BUNDLE_BYTES = 32 * MiB;

/** Why the host ended a process that had calls or, for `room`, sessions in it. */
export type EndReason = HealthFailure | "stuck" | "unread" | "budget" | "nonsense" | "room" | "interrupted";

/** Reasons that are the fault of the code in the process. Others can also result from a signal of another program. */
const FAULT_REASONS: ReadonlySet<EndReason> = new Set(["memory", "stuck", "hung", "unread", "burning", "nonsense"]);

/** Final messages of V8 and Node.js. Guests cannot write to stderr. */
const OUT_OF_MEMORY = /JavaScript (?:heap )?out of memory|Fatal process out of memory|Allocation failed/i;

const hasUncounted = ({ descriptors }: WorkerToolProfile): boolean =>
  descriptors !== undefined && Object.values(descriptors).some(({ uncounted }) => uncounted !== undefined);

export class WorkerProcess {
  readonly #process: LaunchedProcess;
  readonly #channel: WorkerChannel;
  readonly #calls = new Map<number, OpenCall>();
  readonly #bundles = new Set<string>();
  #bundleBytes = 0;
  /** Set if the process was started without the prelude's code cache: it returns one when it is ready. */
  #awaitedCache: EngineCache | undefined;
  /** Set while the worker makes the code caches of the platform modules. */
  #awaitedChunks: EngineCache | undefined;
  /** Set for Python processes only. */
  readonly #python: PythonSetup | undefined;
  #isStuck = false;
  readonly #tools = new Map<WorkerToolProfile, number>();
  /** For each profile the tenant that called it last. */
  readonly #callers = new Map<WorkerToolProfile, string>();
  /** Memory limits in MiB of tools whose isolates may be kept warm, least recently used first. */
  readonly #warm = new Map<string, number>();
  /** Memory limits in MiB of the sessions whose isolates are in this process. */
  readonly #sessions = new Map<number, number>();
  #lastToolId = 0;
  readonly #launcher: Launcher;
  readonly #inspector: Inspector | undefined;
  #inspected: { readonly seq: number; readonly isolate: InspectedIsolate } | undefined;
  readonly #onChange: (worker: WorkerProcess) => void;
  #startTimer: NodeJS.Timeout;
  readonly #monitor: ProcessMonitor;
  readonly #awake = new StayAwake();
  #lastSeq = 0;
  #drainTimer: NodeJS.Timeout | undefined;
  #isReferenced = true;
  #isUnrefPending = false;
  #ready = false;
  #dead = false;
  #endReason: EndReason | undefined;
  /** Owner that may use the process; undefined for an unused warm process. */
  owner: string | undefined;
  /** Runs one job and is then ended. */
  singleUse = false;
  /** Takes no more calls, because another owner waits for its slot. */
  draining = false;
  /** The running call must not share the process. */
  isExclusive = false;
  /** Calls of tools that are not known to be short; see WorkerPool. */
  unproven = 0;
  /** Its calls may compute for long, and its owner has short calls in another process. */
  isBackground = false;
  /** Calls that the process may run at once; see WorkerPool. */
  window = 0;
  /** Recent CPU usage in cores: 1 is one thread that is always busy. */
  cpuRate = 0;
  /** Whether it was started with idle scheduling. */
  readonly idlePriority: boolean;
  readonly kind: WorkerKind;
  /** Data limit of the operating system, if it differs from the default. */
  readonly dataBytes: number | undefined;
  /** The host gave it up because it took too long to start. */
  isLate = false;
  /** `performance.now()` when it last ran a call. */
  lastUsed: number = performance.now();

  /** @param onChange called when a call is released, when the worker is ready, and when it has died */
  constructor(sources: WorkerSources, onChange: (worker: WorkerProcess) => void, start: WorkerStart = {}) {
    const { kind = "plain", dataBytes, ...rest } = start;
    const options: StartOptions = { ...rest, ...(dataBytes === undefined ? {} : { dataBytes }) };
    this.kind = kind;
    this.dataBytes = dataBytes;
    this.#monitor = new ProcessMonitor(WORKER_KINDS[kind].idleWorkMs);
    this.#onChange = onChange;
    this.#launcher = sources.launcher;
    this.#inspector = sources.inspector;
    this.idlePriority = options.idlePriority === true && sources.launcher.supportsIdlePriority;
    this.#channel = new WorkerChannel(
      {
        onFrame: (frame) => this.#receive(frame),
        onProtocolError: () => {
          this.#endReason ??= "nonsense";
          this.kill();
        },
        onClosed: () => {
          this.#process.kill();
          this.#drainOutput();
        },
      },
      FIRST_FRAME_BYTES,
    );
    const cached = sources.preludeCache.bytes;
    if (cached.byteLength === 0) this.#awaitedCache = sources.preludeCache;
    if (this.#inspector !== undefined) this.#channel.allow(MAX_INSPECT_BYTES + MiB);
    const inspect = this.#inspector === undefined ? {} : { inspect: true };
    this.#channel.write({ type: "init", protocolVersion: PROTOCOL_VERSION, ...inspect }, [
      sources.preludeSource,
      cached,
      sources.moduleCache.bytes,
    ]);
    this.#startTimer = this.#limitStartTime(START_MS);
    this.#python = kind === "python" ? this.#openPython(sources) : undefined;
    this.#process = sources.launcher.launch(
      {
        onConnected: (socket) => {
          this.#channel.connect(socket);
          if (!this.#dead) this.#beginMonitoring(options);
        },
        onExit: () => this.#drainOutput(),
        onClose: () => this.#die(true),
      },
      options,
    );
  }

  #limitStartTime(withinMs: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.isLate = true;
      this.kill();
    }, withinMs);
  }

  #openPython({ python }: WorkerSources): PythonSetup {
    if (python === undefined) throw new Error("The Python runtime is not configured");
    const setup = new PythonSetup(python);
    this.#channel.allow(Math.min(MAX_FRAME_BYTES, setup.answerBytes));
    for (const { fileName, bytes } of setup.wheels) {
      this.#channel.write({ type: "python-package", fileName }, [bytes]);
    }
    this.#channel.write(setup.message, setup.parts);
    this.#bundles.add(python.sha256);
    return setup;
  }

  #beginMonitoring({ niceness = 0 }: StartOptions): void {
    const { connection } = this.#process;
    if (connection === undefined) return;
    this.#monitor.begin(connection.pid, this.idlePriority ? LOWEST_PRIORITY : niceness);
    this.#process.setReferenced(this.#isReferenced);
  }

  /** Id of the process that runs the worker program. Until that is up, id of the outermost wrapper. */
  get pid(): number | undefined {
    return this.#monitor.pid;
  }
  get isReady(): boolean {
    return this.#ready;
  }
  /** How soon the process could begin a call. A higher number means sooner. */
  get readiness(): number {
    return Number(this.#ready) + Number(this.isPythonReady);
  }
  /** Whether it has loaded a Python interpreter. */
  get isPythonReady(): boolean {
    return this.#python?.isReady ?? false;
  }
  get isDead(): boolean {
    return this.#dead;
  }
  /** The process is being killed. The host still reads what it sent before. */
  get isEnding(): boolean {
    return this.#endReason !== undefined;
  }
  /** Why the host ended it; undefined if the host did not. */
  get endReason(): EndReason | undefined {
    return this.#endReason;
  }
  /** Takes no more calls: it has received the most bundles allowed, or runs code that cannot be stopped. */
  get isSpent(): boolean {
    return this.#isStuck || this.#bundleBytes > MAX_BUNDLE_BYTES;
  }
  /** Calls in the process, including calls that have ended but may still run. */
  get load(): number {
    return this.#calls.size;
  }
  /** Calls in the process that are not paused for an answer of their caller. A paused call computes nothing. */
  get busy(): number {
    let count = 0;
    for (const { resting } of this.#calls.values()) if (resting === 0) count += 1;
    return count;
  }
  /** Calls in the process that may be short: they have just begun, and are not paused for an answer of their caller. */
  get young(): number {
    if (this.#calls.size === 0) return 0;
    const since = performance.now() - SHORT_CALL_MS;
    let count = 0;
    for (const { resting, startedAt } of this.#calls.values()) if (resting === 0 && startedAt > since) count += 1;
    return count;
  }
  /** Whether a call keeps the process from reading messages; see `mainThreadMs` in messages.ts. */
  get isInside(): boolean {
    for (const call of this.#calls.values()) if (call.isInside) return true;
    return false;
  }
  /** Whether the process may run a call on its main thread: no other call is in it. */
  get isFree(): boolean {
    return this.#ready && this.#calls.size === 0 && this.kind === "plain" && this.#inspector === undefined;
  }
  /** Whether it crashed or had to be killed because of the code in it. */
  get hasFailed(): boolean {
    if (!this.#dead) return false;
    return this.#isStuck || FAULT_REASONS.has(this.#endReason ?? "stopped") || isCrash(this.#process.ending);
  }
  /** A call in it has ended but has not stopped. The whole process may have to be killed. */
  get isReleasing(): boolean {
    for (const call of this.#calls.values()) if (call.isReleasing) return true;
    return false;
  }
  /** Average CPU time in ms of each call in it, since the oldest of them started. */
  get cpuMsPerCall(): number {
    const [oldest] = this.#calls.values();
    return oldest === undefined ? 0 : (this.#monitor.cpuMs - oldest.cpuMsBefore) / this.#calls.size;
  }
  /** Whether session isolates would be lost with the process. */
  get hasSessions(): boolean {
    return this.#sessions.size > 0;
  }
  /** Number of calls that the process has received so far. */
  get served(): number {
    return this.#lastSeq;
  }
  /** Resident memory at the last reading, in bytes. */
  get rssBytes(): number {
    return this.#monitor.rssBytes;
  }
  /** Last output on stderr. For the operator only, never for a caller. */
  get diagnostics(): string {
    return this.#process.ending?.diagnostics ?? "";
  }

  /**
   * Sends a call, preceded by its bundle if this worker does not have it.
   * @param onMainThread whether the call may run on the main thread of the process, which must be free
   * @returns the call's sequence number in this process
   * @throws {ToolError} OVERLOADED if the process has ended
   */
  start(
    { order, bundle, input, inputBytes, leftMs }: WorkerJob,
    listener: CallListener,
    onMainThread: boolean = false,
  ): number {
    if (this.#dead)
      throw new ToolError("OVERLOADED", "The sandbox process has ended", { details: { retryAfterMs: 1_000 } });
    this.#lastSeq += 1;
    const seq = this.#lastSeq;
    this.lastUsed = performance.now();
    this.#monitor.beginWork();
    const limits = order.type === "call" ? order.tool.limits : order.limits;
    this.#channel.allow(largestFrame(limits, order.type === "extract" ? bundle.code.length : 0));
    const warmKey = this.#warmKeyOf(order);
    if (warmKey !== undefined) setBounded(this.#warm, warmKey, limits.memoryMiB, MAX_WARM);
    const session = order.type === "call" ? order.session?.id : undefined;
    if (session !== undefined) this.#sessions.set(session, limits.memoryMiB);
    const call = new OpenCall({
      ...{ listener, limits, warmKey, session, rssBytes: this.rssBytes, cpuMs: this.#monitor.cpuMs },
      hasUncounted: order.type === "call" && hasUncounted(order.tool),
      leftMs: onMainThread ? leftMs : undefined,
    });
    this.#calls.set(seq, call);
    this.#updateReference();
    this.#send(seq, { order, bundle, input, inputBytes }, call);
    if (this.#ready) listener.onPlaced();
    return seq;
  }

  #send(seq: number, { order, bundle, input, inputBytes }: WorkerJob, call: OpenCall): void {
    if (!this.#bundles.has(bundle.sha256)) {
      this.#bundles.add(bundle.sha256);
      this.#bundleBytes += bundle.code.length + bundle.codeCache.byteLength;
      const message = { type: "bundle", sha256: bundle.sha256, modules: [...bundle.modules.names] } as const;
      this.#channel.write(message, [bundle.code, bundle.codeCache]);
    }
    if (order.type === "extract") call.frame = this.#channel.write({ ...order, seq });
    else {
      const { type, tool, callId, tenantId, stream, deterministic, session, prewarm } = order;
      const toolId = this.#toolIdOf(tool);
      this.#callers.set(tool, tenantId);
      const mainThreadMs = call.enterMainThread();
      const message = { type, seq, toolId, callId, tenantId, stream, deterministic, session, prewarm, mainThreadMs };
      call.frame = this.#channel.write(message, inputBytes === undefined ? [input] : [input, ...inputBytes]);
      if (session?.once === true) this.#dropOneTimeTool(tool, bundle);
    }
  }

  /** Mirrors what the worker does when the call has begun. */
  #dropOneTimeTool(tool: WorkerToolProfile, { sha256, code, codeCache }: SentBundle): void {
    this.#tools.delete(tool);
    this.#callers.delete(tool);
    if (this.#bundles.delete(sha256)) this.#bundleBytes -= code.length + codeCache.byteLength;
  }

  /** Id that the worker knows the tool by; undefined if it was never sent. */
  toolIdOf(profile: WorkerToolProfile): number | undefined {
    return this.#tools.get(profile);
  }

  /**
   * Tenants that use a tool here, with the isolates that each needs: the number of its running calls, but at least one.
   */
  usesOf(profile: WorkerToolProfile): readonly { readonly tenantId: string; readonly isolates: number }[] {
    const toolId = this.#tools.get(profile);
    if (toolId === undefined) return [];
    // An isolate of a single call has no tenant until a call takes it. The worker decides how many it keeps.
    const caller = this.#callers.get(profile);
    if (profile.isolateLifetime !== "tool") return caller === undefined ? [] : [{ tenantId: caller, isolates: 1 }];
    const prefix = `${toolId} `;
    const keys = [...this.#warm.keys()].filter((key) => key.startsWith(prefix));
    return keys.map((key) => {
      let running = 0;
      for (const { warmKey } of this.#calls.values()) if (warmKey === key) running += 1;
      return { tenantId: key.slice(prefix.length), isolates: Math.max(1, running) };
    });
  }

  /** Releases the warm isolates of a tool, and its bundle if no other tool uses it. Running calls continue. */
  release(profile: WorkerToolProfile, bundle: SentBundle | undefined): void {
    const toolId = this.#tools.get(profile);
    if (toolId === undefined || this.#dead) return;
    this.#tools.delete(profile);
    this.#callers.delete(profile);
    for (const key of [...this.#warm.keys()]) if (key.startsWith(`${toolId} `)) this.#warm.delete(key);
    const isShared = [...this.#tools.keys()].some(({ sha256 }) => sha256 === profile.sha256);
    const isForgotten = bundle !== undefined && !isShared && this.#bundles.delete(bundle.sha256);
    if (isForgotten) this.#bundleBytes -= bundle.code.length + bundle.codeCache.byteLength;
    this.#channel.write({ type: "forget-tool", toolId, bundle: isForgotten });
  }

  /** Disposes the session's isolate. Calling it twice is a no-op. */
  endSession(session: number): void {
    if (!this.#sessions.delete(session) || this.#dead) return;
    this.#channel.write({ type: "end-session", session });
    if (this.load === 0) this.#onChange(this);
  }

  #toolIdOf(tool: WorkerToolProfile): number {
    const cached = this.#tools.get(tool);
    if (cached !== undefined) return cached;
    this.#lastToolId += 1;
    const toolId = this.#lastToolId;
    this.#tools.set(tool, toolId);
    this.#channel.write({ type: "tool", toolId, ...tool });
    return toolId;
  }

  /** Key under which the call's isolate is kept for the next call; undefined if it is not kept. */
  #warmKeyOf(order: CallOrder): string | undefined {
    if (order.type === "extract" || order.tool.isolateLifetime !== "tool") return undefined;
    return `${this.#toolIdOf(order.tool)} ${order.tenantId}`;
  }

  /** Ends a call's isolate. The process is killed if the isolate does not stop within `RELEASE_MS`. */
  cancel(seq: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    call.isCancelled = true;
    this.#channel.write({ type: "cancel", seq });
    // The worker ends a call on its main thread at its deadline by itself. Earlier it cannot read the message.
    if (call.isInside && (call.leftMs ?? 0) > INSIDE_RELEASE_MS) {
      call.expectRelease(INSIDE_RELEASE_MS, () => this.end("interrupted"));
      return;
    }
    // A process that is still starting cannot answer: until then START_MS limits it.
    if (this.#ready) this.#expectRelease(call);
  }

  /** Starts or stops reports of the worker on whether the call's guest is idle. */
  watchGuest(seq: number, isWatched: boolean): void {
    const call = this.#calls.get(seq);
    if (call !== undefined && !call.hasEnded) this.#channel.write({ type: "watch-idle", seq, isWatched });
  }

  rest(seq: number, isResting: boolean): void {
    const call = this.#calls.get(seq);
    if (call !== undefined) call.resting += isResting ? 1 : -1;
  }

  /** Grants a call `chunks` more chunks, because the reader has taken as many. */
  credit(seq: number, chunks: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    call.credit(chunks);
    this.#channel.write({ type: "credit", seq, chunks });
  }

  /** Sends a capability's answer to a call. An ended call receives nothing. */
  #deliver(seq: number, requestId: number, envelope: string): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    const mainThreadMs = this.#calls.size === 1 ? call.enterMainThread() : undefined;
    this.#channel.write({ type: "capability-result", seq, requestId, mainThreadMs }, [envelope]);
    // A guest that is not delayed by other calls often answers at once, with its result or the next request.
    if (mainThreadMs !== undefined) this.#awake.expectReply();
    if (this.#channel.pendingBytes > MAX_PENDING_BYTES) this.end("unread");
  }

  /**
   * Requests the code caches of the platform modules. Only for a process that has received no call and takes none
   * before it has answered.
   */
  requestModuleCaches(cache: EngineCache): void {
    this.#awaitedChunks = cache;
    this.#channel.allow(cache.maxBytes + MiB);
    this.#channel.write({ type: "make-module-caches" });
  }

  #receiveModuleCaches([caches]: readonly Buffer[]): void {
    if (this.#awaitedChunks === undefined || caches === undefined) {
      throw new Error("The worker sent code caches that were not requested");
    }
    // If it received a call meanwhile, a tool may have tampered with the caches: do not share them.
    if (this.served === 0) this.#awaitedChunks.offer(caches);
    this.#awaitedChunks = undefined;
  }

  /**
   * Checks the health of a process that runs calls.
   * @param elapsedMs time of the host's event loop since the last check
   */
  watch(elapsedMs: number): void {
    if (!this.#ready) {
      if (performance.now() - this.lastUsed > MAX_IDLE_START_MS) this.#startAtNormalPriority();
      return;
    }
    // A process that runs a call on its main thread answers no ping. The call's deadline limits that.
    if (this.isInside) this.#monitor.recordMessage();
    const failure = this.#monitor.check(elapsedMs, this.#ceilingBytes, () => this.#channel.write({ type: "ping" }));
    for (const call of this.#calls.values()) call.meter(this.rssBytes);
    if (failure !== undefined) this.end(failure);
  }

  /** Ends idle scheduling of a starting process and its wrappers. */
  #startAtNormalPriority(): void {
    const { pid } = this;
    if (pid === undefined || !this.idlePriority || this.#monitor.niceness !== LOWEST_PRIORITY) return;
    this.#monitor.niceness = 0;
    for (const processId of withDescendants(pid)) this.#launcher.setIdle(processId, false);
  }

  /** Checks the health of a process that runs no calls. */
  watchIdle(): void {
    if (!this.#ready || this.load > 0) return;
    const failure = this.#monitor.checkIdle(this.#ceilingBytes);
    if (failure !== undefined) this.end(failure);
  }

  /** CPU time in ms since the previous call of this method. */
  takeCpuMs(): number {
    return this.#monitor.takeCpuMs();
  }

  /** Resident memory in bytes that the contents of the process may reach. */
  get #ceilingBytes(): number {
    let memoryMiB = 0;
    const inUse = new Set<string | number | undefined>();
    for (const { limits, warmKey, session } of this.#calls.values()) {
      memoryMiB += limits.memoryMiB;
      inUse.add(warmKey).add(session);
    }
    for (const [session, keptMiB] of this.#sessions) if (!inUse.has(session)) memoryMiB += keptMiB;
    for (const [key, warmMiB] of this.#warm) if (!inUse.has(key)) memoryMiB += warmMiB;
    return WORKER_KINDS[this.kind].baseBytes + GROWTH_FACTOR * memoryMiB * MiB;
  }

  /** Above 0 while its owner has used more than its CPU share. */
  get niceness(): number {
    return this.#monitor.niceness;
  }

  /** Returns false if the operating system does not allow it. */
  setNiceness(niceness: number): boolean {
    const before = this.#monitor.niceness;
    if (!this.#monitor.setNiceness(niceness)) return false;
    const isLast = niceness === LOWEST_PRIORITY;
    if (this.pid !== undefined && isLast !== (before === LOWEST_PRIORITY)) this.#launcher.setIdle(this.pid, isLast);
    return true;
  }

  /** Sends SIGKILL and reads the remaining messages, so that a call that had ended keeps its result. */
  end(reason: EndReason): void {
    if (this.#dead || this.#endReason !== undefined) return;
    this.#endReason = reason;
    this.#process.kill();
    this.#drainOutput();
  }

  /** Sends SIGKILL: process.exit() would wait for busy isolates. Calls in it are lost. Calling it twice is a no-op. */
  kill(reason?: "room"): void {
    this.#endReason ??= reason;
    this.#process.kill();
    this.#die(false);
  }

  /** Limits the wait for the channel to close: a child process of the worker could hold the other end open. */
  #drainOutput(): void {
    if (this.#dead) return;
    this.#drainTimer ??= setTimeout(() => this.#die(false), DRAIN_MS);
  }

  /** @param isDrained whether everything that the process sent has been read */
  #die(isDrained: boolean): void {
    if (this.#dead) return;
    if (isDrained && !this.#channel.isDrained) {
      setImmediate(() => this.#die(true));
      return;
    }
    this.#dead = true;
    clearTimeout(this.#drainTimer);
    clearTimeout(this.#startTimer);
    this.#channel[Symbol.dispose]();
    this.#monitor[Symbol.dispose]();
    const open = [...this.#calls.values()].filter((call) => !call.hasEnded);
    const isOutOfMemory =
      this.#endReason === "memory" || (this.#endReason === undefined && OUT_OF_MEMORY.test(this.diagnostics));
    const isSuspect = isOutOfMemory || isCrash(this.#process.ending);
    for (const call of this.#calls.values()) call.release();
    this.#calls.clear();
    this.#endInspection();
    for (const call of open) {
      const begun = this.#ready && this.#channel.mayBeRead(call.frame) && call.hasBegun(isDrained);
      call.listener.onLost({ begun, outOfMemory: isOutOfMemory && open.length === 1, isSuspect }, call.peakBytes);
    }
    this.#onChange(this);
  }

  #expectRelease(call: OpenCall): void {
    call.expectRelease(RELEASE_MS, () => {
      call.listener.onStuck();
      this.end("stuck");
    });
  }

  #receive([message, ...parts]: Frame): void {
    if (message.length > MAX_MESSAGE_BYTES) throw new Error("A message of the worker exceeds the size limit");
    const parsed = WorkerMessageSchema.parse(JSON.parse(message.toString()));
    this.#monitor.recordMessage();
    this.#awake.recordReply();
    if (parsed.type === "ready") this.#becomeReady(parts);
    else if (parsed.type === "pong") {
      if (!this.#monitor.acceptPong()) throw new Error("The worker sent a pong without a ping");
    } else if (parsed.type === "python-ready") this.#becomePythonReady(parts);
    else if (parsed.type === "module-caches") this.#receiveModuleCaches(parts);
    else if (parsed.type === "inspect-open") this.#beginInspection(parsed.seq);
    else if (parsed.type === "inspected") this.#receiveInspected(parsed.seq, parts);
    else if (parsed.type === "stuck") {
      this.#isStuck = true;
      if (this.load === 0) this.end("stuck");
    } else this.#receiveForCall(parsed, parts);
  }

  #receiveForCall(parsed: CallMessage, parts: readonly Buffer[]): void {
    const call = this.#calls.get(parsed.seq);
    if (call === undefined || !this.#ready) throw new Error("The worker named an unknown call");
    const isTooLarge = parsed.type === "ended" && this.#meterNow(call);
    if (parsed.type === "ended" && call.session !== undefined && parsed.kept !== true)
      this.#sessions.delete(call.session);
    call.receive(parsed, parts, (requestId, envelope) => this.#deliver(parsed.seq, requestId, envelope));
    if (parsed.type === "parked") this.#onChange(this);
    else if (parsed.type === "ended" && !parsed.released) this.#expectRelease(call);
    else if (parsed.type === "released" || parsed.type === "ended") this.#release(parsed.seq, call);
    if (isTooLarge) this.end("memory");
  }

  /** Inspects one of several concurrent calls at a time. Inspection of the next call ends that of the previous one. */
  #beginInspection(seq: number): void {
    const call = this.#calls.get(seq);
    if (this.#inspector === undefined || call === undefined || call.hasEnded) {
      throw new Error("The worker offered an isolate for inspection that was not requested");
    }
    this.#endInspection();
    const isolate: InspectedIsolate = {
      send: (text) => {
        if (!this.#dead) this.#channel.write({ type: "inspect", seq }, [text]);
        if (this.#channel.pendingBytes > MAX_PENDING_BYTES) this.end("unread");
      },
      go: () => {
        if (!this.#dead) this.#channel.write({ type: "inspect-go", seq });
      },
      hold: (isHeld) => this.#calls.get(seq)?.listener.onPaused(isHeld),
    };
    this.#inspected = { seq, isolate };
    this.#inspector.onOpened(isolate);
  }

  #receiveInspected(seq: number, [text]: readonly Buffer[]): void {
    const inspected = this.#inspected;
    if (inspected?.seq !== seq || text === undefined || text.length > MAX_INSPECT_BYTES) {
      throw new Error("The worker sent an inspector message for an isolate that is not inspected");
    }
    this.#inspector?.onMessage(inspected.isolate, text.toString());
  }

  #endInspection(): void {
    if (this.#inspected !== undefined) this.#inspector?.onClosed(this.#inspected.isolate);
    this.#inspected = undefined;
  }

  /**
   * Reads memory again when a call ends, since it may have grown between two readings.
   * @returns whether the process exceeds its ceiling
   */
  #meterNow(call: OpenCall): boolean {
    if (this.rssBytes < WORKER_KINDS[this.kind].baseBytes) return false;
    this.#monitor.refresh();
    call.meter(this.rssBytes);
    return this.rssBytes > this.#ceilingBytes;
  }

  #becomeReady([preludeCache]: readonly Buffer[]): void {
    if (this.#ready) throw new Error("The worker sent ready twice");
    if (preludeCache !== undefined) {
      if (this.#awaitedCache === undefined) throw new Error("The worker sent a code cache that was not requested");
      this.#awaitedCache.offer(preludeCache);
      this.#awaitedCache = undefined;
    }
    this.#ready = true;
    clearTimeout(this.#startTimer);
    if (this.#python !== undefined) this.#startTimer = this.#limitStartTime(PYTHON_START_MS);
    this.#monitor.attach();
    this.#updateReference();
    for (const call of this.#calls.values()) {
      call.startMeter(this.rssBytes);
      if (call.isCancelled) this.#expectRelease(call);
      else call.listener.onPlaced();
    }
    this.#onChange(this);
  }

  #becomePythonReady(parts: readonly Buffer[]): void {
    if (this.#python === undefined || !this.#ready)
      throw new Error("The worker reported an interpreter that was not requested");
    this.#python.answered(parts);
    clearTimeout(this.#startTimer);
    this.#onChange(this);
  }

  #release(seq: number, call: OpenCall): void {
    call.release();
    this.#calls.delete(seq);
    this.lastUsed = performance.now();
    this.#updateReference();
    this.#onChange(this);
  }

  get #isBusy(): boolean {
    return this.#calls.size > 0 || !this.#ready;
  }

  /**
   * An idle worker must not keep the host's process alive; a busy or starting one must. The reference is dropped one
   * event loop turn later, so that consecutive calls do not toggle it.
   */
  #updateReference(): void {
    if (this.#isBusy && !this.#isReferenced) this.#setReferenced(true);
    else if (!this.#isBusy && this.#isReferenced && !this.#isUnrefPending) {
      this.#isUnrefPending = true;
      setImmediate(() => {
        this.#isUnrefPending = false;
        if (!this.#isBusy) this.#setReferenced(false);
      });
    }
  }

  #setReferenced(isReferenced: boolean): void {
    this.#isReferenced = isReferenced;
    this.#process.setReferenced(isReferenced);
  }
}

function withDescendants(pid: number): readonly number[] {
  return [pid, ...childrenOf(pid).flatMap(withDescendants)];
}

/**
 * Returns the largest frame in bytes that a call with these limits can cause. A UTF-16 code unit takes up to three
 * bytes.
 */
function largestFrame({ inputBytes, outputBytes, logBytes }: Limits, codeUnits: number): number {
  const largestPart = Math.max(outputBytes, 3 * inputBytes, 3 * logBytes, 4 * codeUnits);
  return Math.min(MAX_FRAME_BYTES, largestPart + 2 * MiB);
}

/** Signals by which a program ends after a fatal error of its own. */
const CRASH_SIGNALS: ReadonlyMap<string, number> = new Map([
  ["SIGILL", 4],
  ["SIGTRAP", 5],
  ["SIGABRT", 6],
  ["SIGBUS", 7],
  ["SIGSEGV", 11],
]);

/** Returns whether a process crashed. Like a shell, a wrapper reports its child's signal as an exit code. */
function isCrash(ending: Ending | undefined): boolean {
  if (ending === undefined) return false;
  if (ending.signal !== null) return CRASH_SIGNALS.has(ending.signal);
  return [...CRASH_SIGNALS.values()].some((number) => ending.code === 128 + number);
}
