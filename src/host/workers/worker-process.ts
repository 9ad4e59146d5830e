// One worker process: started, spoken to, watched, killed. Nothing it says is believed: every message is bounded, parsed and checked
// against what was asked, and what does not fit ends the process. The worst that a taken-over worker can do is answer the calls
// that it was given.

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
import type { ChunkName } from "../../sandbox/protocol/platform-modules.ts";
import type { Deterministic } from "../../sandbox/worker/seeded-bytes.ts";
import { setBounded } from "../util/bounded-map.ts";
import type { EngineCache } from "./engine-cache.ts";
import type { Launcher, StartOptions } from "./hardening/launcher.ts";
import { childrenOf, LAST_NICENESS } from "./health/process-meter.ts";
import { type HealthFailure, ProcessWatch } from "./health/process-watch.ts";
import type { InspectedIsolate, Inspector } from "./inspected-isolate.ts";
import { type CallListener, type CallMessage, OpenCall } from "./open-call.ts";
import { PythonSetup, type PythonSources } from "./python-setup.ts";
import type { LaunchedProcess } from "./spawn/launched-process.ts";
import type { Ending } from "./spawn/spawn-command.ts";
import { WorkerChannel } from "./worker-channel.ts";
import { FLAVOURS, type WorkerKind } from "./worker-kind.ts";

/** How calls of a tool are run: told to a worker once, known there by the object's identity. */
export type WorkerToolProfile = Omit<ToolMessage, "type" | "toolId">;

/** `once`: tool and bundle are this call's alone, and forgotten when it has begun. `resumes`: an earlier call has left its isolate. */
export interface SessionOrder {
  readonly id: number;
  readonly once: boolean;
  readonly resumes?: true | undefined;
}

/** What the pool asks of a worker. */
export type CallOrder =
  | {
      readonly type: "call";
      readonly tool: WorkerToolProfile;
      readonly callId: string;
      readonly tenantId: string;
      /** Its chunks are wanted as they come. */
      readonly stream?: true | undefined;
      readonly deterministic?: Deterministic | undefined;
      /** Its isolate is a session's, and lives on. */
      readonly session?: SessionOrder | undefined;
      /** The tool is only loaded, for a call to come; calls come as they do for the tool with the number `like`. */
      readonly prewarm?: { readonly like: number | undefined } | undefined;
    }
  | ({ readonly type: "learn" } & Pick<ToolMessage, "sha256" | "limits" | "features" | "coarseTime">);

/** A bundle to be sent once to each worker that runs it. */
export interface SentBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: Uint8Array;
  /** What its isolates touch of the platform, as far as is known when a worker is sent it. */
  readonly chunks: { readonly names: readonly ChunkName[] };
}

/** A call as a worker is given it. */
export interface WorkerJob {
  readonly order: CallOrder;
  readonly bundle: SentBundle;
  /** JSON text; as bytes where it is large. */
  readonly input: string | Uint8Array;
  /** Bytes that belong into it: a BytesHeader as JSON text, and the bytes. */
  readonly inputBytes?: readonly [header: string, data: Uint8Array] | undefined;
}

export interface WorkerSources {
  /** Disposed of with the fleet. */
  readonly launcher: Launcher;
  readonly preludeSource: string;
  readonly preludeCache: EngineCache;
  readonly chunkCache: EngineCache;
  /** For processes of the flavour `python`; undefined as long as there is no use for one. */
  readonly python?: PythonSources | undefined;
  /** Calls can be inspected: only where a person at this host's terminal has asked for it. */
  readonly inspector?: Inspector | undefined;
}

/** How a process is started, and for what. */
export interface WorkerStart extends Omit<StartOptions, "dataBytes"> {
  /** `plain` unless stated. */
  readonly flavour?: WorkerKind | undefined;
  readonly dataBytes?: number | undefined;
}

/** From `ended` or `cancel` to `released`; then the isolate counts as one that only SIGKILL stops. */
const RELEASE_MS = 200;
/** A worker that does not answer by then will not. */
const START_MS = 10_000;
/** What loads an interpreter takes seconds where it makes the snapshot too, and many times as long on a busy machine. */
const PYTHON_START_MS = 60_000;
/** One that goes last may find no time at all where others keep all cores busy: from then on it starts like any other. */
const START_LAST_MS = 250;
/** From SIGKILL, or from a worker's exit, to the end of what it has said. */
const HEAR_OUT_MS = 250;
/** What a worker has not read by then it does not mean to read: it makes the host hold it. */
const MAX_UNREAD_BYTES = 128 * 1024 * 1024;
const MiB = 1024 * 1024;
/** Until a call is there that may cause more. */
const FIRST_FRAME_BYTES = MiB;
/** V8's limit is a guideline (isolated-vm's README says so); what passes it twice over is a way around it. */
const GROWTH_FACTOR = 2;
/** Isolates kept warm in one worker, see IsolatePool. */
const MAX_WARM = 16;
/** Of bundles and their code caches that one worker is given: it keeps them while it lives, within what its flavour has at rest. */
const MAX_BUNDLE_BYTES = 32 * MiB;

/** Why the host ended a process that had calls in it, or, for the room that it took, conversations. */
export type EndReason = HealthFailure | "stuck" | "unread" | "budget" | "nonsense" | "room";

/** Those that are the doing of what runs in it; a process may be stopped, or end, by somebody else's signal. */
const BAD_ENDS: ReadonlySet<EndReason> = new Set(["memory", "stuck", "hung", "unread", "burning", "nonsense"]);

/** V8's last words, and Node's: no guest can write to stderr. */
const OUT_OF_MEMORY = /JavaScript (?:heap )?out of memory|Fatal process out of memory|Allocation failed/i;

const hasUncounted = ({ shapes }: WorkerToolProfile): boolean =>
  shapes !== undefined && Object.values(shapes).some(({ uncounted }) => uncounted !== undefined);

export class WorkerProcess {
  readonly #process: LaunchedProcess;
  readonly #channel: WorkerChannel;
  readonly #calls = new Map<number, OpenCall>();
  readonly #bundles = new Set<string>();
  #bundleBytes = 0;
  /** It was given no code cache of the prelude, and has one made when it is ready. */
  #awaitedCache: EngineCache | undefined;
  /** It was asked for the code caches of the chunks. */
  #awaitedChunks: EngineCache | undefined;
  /** Of a process for Python. */
  readonly #python: PythonSetup | undefined;
  #isStuck = false;
  readonly #tools = new Map<WorkerToolProfile, number>();
  /** The tenant that has called each of them last. */
  readonly #callers = new Map<WorkerToolProfile, string>();
  /** Memory limits of tools whose isolates may be kept warm, in MiB; the latest last. */
  readonly #warm = new Map<string, number>();
  /** Sessions whose isolates are in it, with their memory limits in MiB. */
  readonly #sessions = new Map<number, number>();
  #lastToolId = 0;
  readonly #launcher: Launcher;
  readonly #inspector: Inspector | undefined;
  #inspected: { readonly seq: number; readonly isolate: InspectedIsolate } | undefined;
  readonly #onChange: (worker: WorkerProcess) => void;
  #startTimer: NodeJS.Timeout;
  readonly #watch: ProcessWatch;
  #lastSeq = 0;
  #hearOutTimer: NodeJS.Timeout | undefined;
  #held = true;
  #lettingGo = false;
  #ready = false;
  #dead = false;
  #endReason: EndReason | undefined;
  /** Who may use it; undefined for a spare that nobody has used. */
  owner: string | undefined;
  /** It runs one job and is ended. */
  singleUse = false;
  /** It takes no more calls: another owner waits for its place, or it has grown too large. */
  draining = false;
  /** The call in it may not have company. */
  isExclusive = false;
  /** Calls that it is given at one time; see WorkerPool. */
  window = 0;
  /** CPU time of late, as cores: 1 is one thread all the time. */
  cpuRate = 0;
  /** Whether it was started to run on idle time only. */
  readonly goesLast: boolean;
  readonly flavour: WorkerKind;
  /** The operating system's limit that it was started with, where it was not the usual one. */
  readonly dataBytes: number | undefined;
  /** It was given up while it started. */
  isLate = false;
  /** `performance.now()` when it last ran a call. */
  lastUsed: number = performance.now();

  /** @param onChange called when a call is released, when the worker is ready, and when it has died */
  constructor(sources: WorkerSources, onChange: (worker: WorkerProcess) => void, start: WorkerStart = {}) {
    const { flavour = "plain", dataBytes, ...rest } = start;
    const options: StartOptions = { ...rest, ...(dataBytes === undefined ? {} : { dataBytes }) };
    this.flavour = flavour;
    this.dataBytes = dataBytes;
    this.#watch = new ProcessWatch(FLAVOURS[flavour].idleWorkMs);
    this.#onChange = onChange;
    this.#launcher = sources.launcher;
    this.#inspector = sources.inspector;
    this.goesLast = options.goesLast === true && sources.launcher.canGoLast;
    this.#channel = new WorkerChannel(
      {
        onFrame: (frame) => this.#receive(frame),
        onNonsense: () => {
          this.#endReason ??= "nonsense";
          this.kill();
        },
        onClosed: () => {
          this.#process.kill();
          this.#hearOut();
        },
      },
      FIRST_FRAME_BYTES,
    );
    const known = sources.preludeCache.bytes;
    if (known.byteLength === 0) this.#awaitedCache = sources.preludeCache;
    if (this.#inspector !== undefined) this.#channel.allow(MAX_INSPECT_BYTES + MiB);
    const inspect = this.#inspector === undefined ? {} : { inspect: true };
    this.#channel.write({ type: "init", protocolVersion: PROTOCOL_VERSION, ...inspect }, [
      sources.preludeSource,
      known,
      sources.chunkCache.bytes,
    ]);
    this.#startTimer = this.#expectStart(START_MS);
    this.#python = flavour === "python" ? this.#openPython(sources) : undefined;
    this.#process = sources.launcher.launch(
      {
        onConnected: (socket) => {
          this.#channel.connect(socket);
          if (!this.#dead) this.#beginWatch(options);
        },
        onExit: () => this.#hearOut(),
        onClose: () => this.#die(true),
      },
      options,
    );
  }

  #expectStart(withinMs: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.isLate = true;
      this.kill();
    }, withinMs);
  }

  #openPython({ python }: WorkerSources): PythonSetup {
    if (python === undefined) throw new Error("There is nothing to make a process for Python of");
    const setup = new PythonSetup(python);
    this.#channel.allow(Math.min(MAX_FRAME_BYTES, setup.answerBytes));
    for (const { fileName, bytes } of setup.wheels) {
      this.#channel.write({ type: "python-package", fileName }, [bytes]);
    }
    this.#channel.write(setup.message, setup.parts);
    this.#bundles.add(python.sha256);
    return setup;
  }

  #beginWatch({ niceness = 0 }: StartOptions): void {
    const { connection } = this.#process;
    if (connection === undefined) return;
    this.#watch.begin(connection.pid, this.goesLast ? LAST_NICENESS : niceness);
    this.#process.hold(this.#held);
  }

  /** Of the process that runs the worker's own program, once it is up; before that, of the outermost wrapper. */
  get pid(): number | undefined {
    return this.#watch.pid;
  }
  get isReady(): boolean {
    return this.#ready;
  }
  /** How soon it could begin a call: of two processes the one that has more of this. */
  get readiness(): number {
    return Number(this.#ready) + Number(this.isPythonReady);
  }
  /** It has loaded an interpreter since it was started. */
  get isPythonReady(): boolean {
    return this.#python?.isReady ?? false;
  }
  get isDead(): boolean {
    return this.#dead;
  }
  /** It is being killed; what it has said is still heard. */
  get isEnding(): boolean {
    return this.#endReason !== undefined;
  }
  /** Why it was ended, where the host did. */
  get endReason(): EndReason | undefined {
    return this.#endReason;
  }
  /** It takes no more calls: it holds as many bundles as one may, or something runs in it that cannot be stopped. */
  get isSpent(): boolean {
    return this.#isStuck || this.#bundleBytes > MAX_BUNDLE_BYTES;
  }
  /** Calls in it, those included that have ended but may still run. */
  get load(): number {
    return this.#calls.size;
  }
  /** Without those that wait for whoever called them, and compute nothing. */
  get busy(): number {
    let count = 0;
    for (const { resting } of this.#calls.values()) if (resting === 0) count += 1;
    return count;
  }
  /** It is over with it because of what ran in it: it had to be killed, or it crashed. */
  get hasEndedBadly(): boolean {
    if (!this.#dead) return false;
    return this.#isStuck || BAD_ENDS.has(this.#endReason ?? "stopped") || isCrash(this.#process.ending);
  }
  /** A call in it has been ended and has not stopped yet: it may have to be killed, with all that is in it. */
  get isReleasing(): boolean {
    for (const call of this.#calls.values()) if (call.isReleasing) return true;
    return false;
  }
  /** CPU time that each of the calls in it has used since the oldest of them came, in ms, on average. */
  get cpuMsPerCall(): number {
    const [oldest] = this.#calls.values();
    return oldest === undefined ? 0 : (this.#watch.cpuMs - oldest.cpuMsBefore) / this.#calls.size;
  }
  /** What it holds for conversations would be lost with it. */
  get hasSessions(): boolean {
    return this.#sessions.size > 0;
  }
  /** Calls it has ever been given. */
  get served(): number {
    return this.#lastSeq;
  }
  /** Resident memory at the last reading, in bytes. */
  get rssBytes(): number {
    return this.#watch.rssBytes;
  }
  /** What it last wrote to stderr: for the operator, never for a caller. */
  get diagnostics(): string {
    return this.#process.ending?.diagnostics ?? "";
  }

  /** Sends a call, and its bundle if this worker has not seen it. Returns the call's number here. */
  start({ order, bundle, input, inputBytes }: WorkerJob, listener: CallListener): number {
    if (this.#dead)
      throw new ToolError("OVERLOADED", "The sandbox process has ended", { details: { retryAfterMs: 1_000 } });
    this.#lastSeq += 1;
    const seq = this.#lastSeq;
    this.lastUsed = performance.now();
    this.#watch.beginWork();
    const limits = order.type === "call" ? order.tool.limits : order.limits;
    this.#channel.allow(largestFrame(limits, order.type === "learn" ? bundle.code.length : 0));
    const warmKey = this.#warmKeyOf(order);
    if (warmKey !== undefined) setBounded(this.#warm, warmKey, limits.memoryMiB, MAX_WARM);
    const session = order.type === "call" ? order.session?.id : undefined;
    if (session !== undefined) this.#sessions.set(session, limits.memoryMiB);
    const call = new OpenCall({
      ...{ listener, limits, warmKey, session, rssBytes: this.rssBytes, cpuMs: this.#watch.cpuMs },
      hasUncounted: order.type === "call" && hasUncounted(order.tool),
    });
    this.#calls.set(seq, call);
    this.#hold();
    this.#send(seq, { order, bundle, input, inputBytes }, call);
    if (this.#ready) listener.onPlaced();
    return seq;
  }

  #send(seq: number, { order, bundle, input, inputBytes }: WorkerJob, call: OpenCall): void {
    if (!this.#bundles.has(bundle.sha256)) {
      this.#bundles.add(bundle.sha256);
      this.#bundleBytes += bundle.code.length + bundle.codeCache.byteLength;
      const message = { type: "bundle", sha256: bundle.sha256, chunks: [...bundle.chunks.names] } as const;
      this.#channel.write(message, [bundle.code, bundle.codeCache]);
    }
    if (order.type === "learn") call.frame = this.#channel.write({ ...order, seq });
    else {
      const { type, tool, callId, tenantId, stream, deterministic, session, prewarm } = order;
      const toolId = this.#toolIdOf(tool);
      this.#callers.set(tool, tenantId);
      const message = { type, seq, toolId, callId, tenantId, stream, deterministic, session, prewarm };
      call.frame = this.#channel.write(message, inputBytes === undefined ? [input] : [input, ...inputBytes]);
      if (session?.once === true) this.#forget(tool, bundle);
    }
  }

  /** As the worker does when the call has begun. */
  #forget(tool: WorkerToolProfile, { sha256, code, codeCache }: SentBundle): void {
    this.#tools.delete(tool);
    this.#callers.delete(tool);
    if (this.#bundles.delete(sha256)) this.#bundleBytes -= code.length + codeCache.byteLength;
  }

  /** The number by which the worker knows a tool. */
  toolIdOf(profile: WorkerToolProfile): number | undefined {
    return this.#tools.get(profile);
  }

  /** For which tenants a tool is in use here, and how many isolates it needs for that: as many as run, and one at least. */
  usesOf(profile: WorkerToolProfile): readonly { readonly tenantId: string; readonly isolates: number }[] {
    const toolId = this.#tools.get(profile);
    if (toolId === undefined) return [];
    // Isolates of single calls are no tenant's until one takes them; how many there are to be, the worker knows.
    const caller = this.#callers.get(profile);
    if (profile.isolation !== "tool") return caller === undefined ? [] : [{ tenantId: caller, isolates: 1 }];
    const prefix = `${toolId} `;
    const keys = [...this.#warm.keys()].filter((key) => key.startsWith(prefix));
    return keys.map((key) => {
      let running = 0;
      for (const { warmKey } of this.#calls.values()) if (warmKey === key) running += 1;
      return { tenantId: key.slice(prefix.length), isolates: Math.max(1, running) };
    });
  }

  /** Releases what it keeps warm of a tool, and the bundle if no other tool has it. Calls of it that run go on. */
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

  /** Its isolate goes; twice is a no-op. */
  endSession(session: number): void {
    if (!this.#sessions.delete(session) || this.#dead) return;
    this.#channel.write({ type: "end-session", session });
    if (this.load === 0) this.#onChange(this);
  }

  #toolIdOf(tool: WorkerToolProfile): number {
    const known = this.#tools.get(tool);
    if (known !== undefined) return known;
    this.#lastToolId += 1;
    const toolId = this.#lastToolId;
    this.#tools.set(tool, toolId);
    this.#channel.write({ type: "tool", toolId, ...tool });
    return toolId;
  }

  /** Under which an isolate is kept for the next call, if it is. */
  #warmKeyOf(order: CallOrder): string | undefined {
    if (order.type === "learn" || order.tool.isolation !== "tool") return undefined;
    return `${this.#toolIdOf(order.tool)} ${order.tenantId}`;
  }

  /** Ends a call's isolate. If it has not really stopped soon, the process is killed. */
  cancel(seq: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    call.isCancelled = true;
    this.#channel.write({ type: "cancel", seq });
    // One that is not up yet cannot answer: until then START_MS is its clock.
    if (this.#ready) this.#expectRelease(call);
  }

  /** Has the worker say whether the call's guest is idle. */
  watchGuest(seq: number, isWatched: boolean): void {
    const call = this.#calls.get(seq);
    if (call !== undefined && !call.hasEnded) this.#channel.write({ type: "watch-idle", seq, isWatched });
  }

  rest(seq: number, isResting: boolean): void {
    const call = this.#calls.get(seq);
    if (call !== undefined) call.resting += isResting ? 1 : -1;
  }

  /** So many more of a call's chunks have been taken. */
  credit(seq: number, chunks: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    call.credit(chunks);
    this.#channel.write({ type: "credit", seq, chunks });
  }

  /** Hands a capability's answer to a call; one that is over is not told. */
  #deliver(seq: number, requestId: number, envelope: string): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    this.#channel.write({ type: "capability-result", seq, requestId }, [envelope]);
    if (this.#channel.pendingBytes > MAX_UNREAD_BYTES) this.end("unread");
  }

  /** Has the code caches of the chunks made: only by one that has been given no call, and takes none before it has answered. */
  askForChunkCaches(cache: EngineCache): void {
    this.#awaitedChunks = cache;
    this.#channel.allow(cache.maxBytes + MiB);
    this.#channel.write({ type: "make-chunk-caches" });
  }

  #takeChunkCaches([caches]: readonly Buffer[]): void {
    if (this.#awaitedChunks === undefined || caches === undefined) {
      throw new Error("The worker sent code caches that it was not asked for");
    }
    // It may have been given a call meanwhile, and what a tool has been near is not for others.
    if (this.served === 0) this.#awaitedChunks.offer(caches);
    this.#awaitedChunks = undefined;
  }

  /** Looks after a process that has calls in it. `elapsedMs`: of the host's own time since the last look. */
  watch(elapsedMs: number): void {
    if (!this.#ready) {
      if (performance.now() - this.lastUsed > START_LAST_MS) this.#hurry();
      return;
    }
    const ailment = this.#watch.look(elapsedMs, this.#ceilingBytes, () => this.#channel.write({ type: "ping" }));
    for (const call of this.#calls.values()) call.meter(this.rssBytes);
    if (ailment !== undefined) this.end(ailment);
  }

  /** Ends its waiting for idle time while it starts: wrappers and all. */
  #hurry(): void {
    const { pid } = this;
    if (pid === undefined || !this.goesLast || this.#watch.niceness !== LAST_NICENESS) return;
    this.#watch.niceness = 0;
    for (const one of withDescendants(pid)) this.#launcher.setIdle(one, false);
  }

  /** Looks after one that has none. */
  watchIdle(): void {
    if (!this.#ready || this.load > 0) return;
    const ailment = this.#watch.lookIdle(this.#ceilingBytes);
    if (ailment !== undefined) this.end(ailment);
  }

  /** CPU time since the last time this was asked, in ms. */
  takeCpuMs(): number {
    return this.#watch.takeCpuMs();
  }

  /** Resident memory that what is in the process may come to. */
  get #ceilingBytes(): number {
    let memoryMiB = 0;
    const inUse = new Set<string | number | undefined>();
    for (const { limits, warmKey, session } of this.#calls.values()) {
      memoryMiB += limits.memoryMiB;
      inUse.add(warmKey).add(session);
    }
    for (const [session, keptMiB] of this.#sessions) if (!inUse.has(session)) memoryMiB += keptMiB;
    for (const [key, warmMiB] of this.#warm) if (!inUse.has(key)) memoryMiB += warmMiB;
    return FLAVOURS[this.flavour].baseBytes + GROWTH_FACTOR * memoryMiB * MiB;
  }

  /** Above 0 while its owner has used more than its share. */
  get niceness(): number {
    return this.#watch.niceness;
  }

  /** False when the operating system does not allow it. */
  setNiceness(niceness: number): boolean {
    const before = this.#watch.niceness;
    if (!this.#watch.setNiceness(niceness)) return false;
    const isLast = niceness === LAST_NICENESS;
    if (this.pid !== undefined && isLast !== (before === LAST_NICENESS)) this.#launcher.setIdle(this.pid, isLast);
    return true;
  }

  /** SIGKILL, and what it has said is heard to the end: a call that had ended has ended. */
  end(reason: EndReason): void {
    if (this.#dead || this.#endReason !== undefined) return;
    this.#endReason = reason;
    this.#process.kill();
    this.#hearOut();
  }

  /** SIGKILL, always: process.exit() waits for busy isolates. Calls in it are lost. Twice is a no-op. */
  kill(reason?: "room"): void {
    this.#endReason ??= reason;
    this.#process.kill();
    this.#die(false);
  }

  /** A process of its own may hold the other end open, but none should. */
  #hearOut(): void {
    if (this.#dead) return;
    this.#hearOutTimer ??= setTimeout(() => this.#die(false), HEAR_OUT_MS);
  }

  /** @param isHeardOut whether all that it has ever said has been read */
  #die(isHeardOut: boolean): void {
    if (this.#dead) return;
    if (isHeardOut && !this.#channel.isHeardOut) {
      setImmediate(() => this.#die(true));
      return;
    }
    this.#dead = true;
    clearTimeout(this.#hearOutTimer);
    clearTimeout(this.#startTimer);
    this.#channel[Symbol.dispose]();
    this.#watch[Symbol.dispose]();
    const open = [...this.#calls.values()].filter((call) => !call.hasEnded);
    const ranOut =
      this.#endReason === "memory" || (this.#endReason === undefined && OUT_OF_MEMORY.test(this.diagnostics));
    const isSuspect = ranOut || isCrash(this.#process.ending);
    for (const call of this.#calls.values()) call.release();
    this.#calls.clear();
    this.#endInspection();
    for (const call of open) {
      const begun = this.#ready && this.#channel.mayBeRead(call.frame) && call.hasBegun(isHeardOut);
      call.listener.onLost({ begun, outOfMemory: ranOut && open.length === 1, isSuspect }, call.peakBytes);
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
    if (message.length > MAX_MESSAGE_BYTES) throw new Error("A message of the worker is too long");
    const parsed = WorkerMessageSchema.parse(JSON.parse(message.toString()));
    this.#watch.heard();
    if (parsed.type === "ready") this.#becomeReady(parts);
    else if (parsed.type === "pong") {
      if (!this.#watch.takeAnswer()) throw new Error("The worker answered a question that it was not asked");
    } else if (parsed.type === "python-ready") this.#loadedPython(parts);
    else if (parsed.type === "chunk-caches") this.#takeChunkCaches(parts);
    else if (parsed.type === "inspect-open") this.#beginInspection(parsed.seq);
    else if (parsed.type === "inspected") this.#hearInspected(parsed.seq, parts);
    else if (parsed.type === "stuck") {
      this.#isStuck = true;
      if (this.load === 0) this.end("stuck");
    } else this.#receiveForCall(parsed, parts);
  }

  #receiveForCall(parsed: CallMessage, parts: readonly Buffer[]): void {
    const call = this.#calls.get(parsed.seq);
    if (call === undefined || !this.#ready) throw new Error("The worker named a call that it was not given");
    const isTooLarge = parsed.type === "ended" && this.#meterNow(call);
    if (parsed.type === "ended" && call.session !== undefined && parsed.kept !== true)
      this.#sessions.delete(call.session);
    call.receive(parsed, parts, (requestId, envelope) => this.#deliver(parsed.seq, requestId, envelope));
    if (parsed.type === "ended" && !parsed.released) this.#expectRelease(call);
    else if (parsed.type === "released" || parsed.type === "ended") this.#release(parsed.seq, call);
    if (isTooLarge) this.end("memory");
  }

  /** Of two calls beside each other only one is inspected, and the next one when that is over. */
  #beginInspection(seq: number): void {
    const call = this.#calls.get(seq);
    if (this.#inspector === undefined || call === undefined || call.hasEnded) {
      throw new Error("The worker offered an isolate for inspection that it was not asked for");
    }
    this.#endInspection();
    const isolate: InspectedIsolate = {
      send: (text) => {
        if (!this.#dead) this.#channel.write({ type: "inspect", seq }, [text]);
        if (this.#channel.pendingBytes > MAX_UNREAD_BYTES) this.end("unread");
      },
      go: () => {
        if (!this.#dead) this.#channel.write({ type: "inspect-go", seq });
      },
      hold: (isHeld) => this.#calls.get(seq)?.listener.onHeld(isHeld),
    };
    this.#inspected = { seq, isolate };
    this.#inspector.onOpened(isolate);
  }

  #hearInspected(seq: number, [text]: readonly Buffer[]): void {
    const inspected = this.#inspected;
    if (inspected?.seq !== seq || text === undefined || text.length > MAX_INSPECT_BYTES) {
      throw new Error("The worker spoke for an isolate that is not inspected");
    }
    this.#inspector?.onMessage(inspected.isolate, text.toString());
  }

  #endInspection(): void {
    if (this.#inspected !== undefined) this.#inspector?.onClosed(this.#inspected.isolate);
    this.#inspected = undefined;
  }

  /** A call that ended between two looks, for want of memory, is looked at once more. True when there is more than may be. */
  #meterNow(call: OpenCall): boolean {
    if (this.rssBytes < FLAVOURS[this.flavour].baseBytes) return false;
    this.#watch.refresh();
    call.meter(this.rssBytes);
    return this.rssBytes > this.#ceilingBytes;
  }

  #becomeReady([preludeCache]: readonly Buffer[]): void {
    if (this.#ready) throw new Error("The worker was ready already");
    if (preludeCache !== undefined) {
      if (this.#awaitedCache === undefined) throw new Error("The worker sent a code cache that it was not asked for");
      this.#awaitedCache.offer(preludeCache);
      this.#awaitedCache = undefined;
    }
    this.#ready = true;
    clearTimeout(this.#startTimer);
    if (this.#python !== undefined) this.#startTimer = this.#expectStart(PYTHON_START_MS);
    this.#watch.attach();
    this.#hold();
    for (const call of this.#calls.values()) {
      call.startMeter(this.rssBytes);
      if (call.isCancelled) this.#expectRelease(call);
      else call.listener.onPlaced();
    }
    this.#onChange(this);
  }

  #loadedPython(parts: readonly Buffer[]): void {
    if (this.#python === undefined || !this.#ready) throw new Error("The worker has no interpreter to load");
    this.#python.answered(parts);
    clearTimeout(this.#startTimer);
    this.#onChange(this);
  }

  #release(seq: number, call: OpenCall): void {
    call.release();
    this.#calls.delete(seq);
    this.lastUsed = performance.now();
    this.#hold();
    this.#onChange(this);
  }

  get #isBusy(): boolean {
    return this.#calls.size > 0 || !this.#ready;
  }

  /**
   * An idle worker does not keep the host's process alive; a busy or a starting one does. It is let go a turn later: between two
   * calls that follow each other nothing changes hands.
   */
  #hold(): void {
    if (this.#isBusy && !this.#held) this.#setHeld(true);
    else if (!this.#isBusy && this.#held && !this.#lettingGo) {
      this.#lettingGo = true;
      setImmediate(() => {
        this.#lettingGo = false;
        if (!this.#isBusy) this.#setHeld(false);
      });
    }
  }

  #setHeld(held: boolean): void {
    this.#held = held;
    this.#process.hold(held);
  }
}

function withDescendants(pid: number): readonly number[] {
  return [pid, ...childrenOf(pid).flatMap(withDescendants)];
}

/** The largest frame that a call of these limits can cause: text that was counted in UTF-16 units is up to three bytes for each. */
function largestFrame({ inputBytes, outputBytes, logBytes }: Limits, codeUnits: number): number {
  const largestPart = Math.max(outputBytes, 3 * inputBytes, 3 * logBytes, 4 * codeUnits);
  return Math.min(MAX_FRAME_BYTES, largestPart + 2 * MiB);
}

/** Signals by which a program ends itself when something is badly wrong in it. */
const CRASH_SIGNALS: ReadonlyMap<string, number> = new Map([
  ["SIGILL", 4],
  ["SIGTRAP", 5],
  ["SIGABRT", 6],
  ["SIGBUS", 7],
  ["SIGSEGV", 11],
]);

/** A wrapper passes its child's signal on as an exit code, as a shell does. */
function isCrash(ending: Ending | undefined): boolean {
  if (ending === undefined) return false;
  if (ending.signal !== null) return CRASH_SIGNALS.has(ending.signal);
  return [...CRASH_SIGNALS.values()].some((number) => ending.code === 128 + number);
}
