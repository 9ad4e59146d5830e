// Starts, drives, monitors and kills one worker process. The host does not trust the worker: it bounds, parses and
// checks every message against what it requested, and ends the process on an invalid one. A compromised worker can at
// worst answer the calls that it was given.

import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Frame } from "../../../sandbox/protocol/frames.ts";
import type { WorkerToolProfile } from "../../../sandbox/protocol/host-messages.ts";
import { MAX_MESSAGE_BYTES } from "../../../sandbox/protocol/message-fields.ts";
import { parseWorkerMessage } from "../../../sandbox/protocol/read-worker-message.ts";
import type { Deterministic } from "../../../sandbox/worker/random-bytes.ts";
import { RunningTimer } from "../../util/running-timer.ts";
import { StayAwake } from "../../util/stay-awake.ts";
import { largestFrame } from "../frame-size.ts";
import type { Launcher, StartOptions } from "../hardening/launcher.ts";
import { type EndReason, FAULT_REASONS, isCrash, OUT_OF_MEMORY } from "../health/process-ending.ts";
import { childrenOf, LOWEST_PRIORITY } from "../health/process-meter.ts";
import { ProcessMonitor } from "../health/process-monitor.ts";
import type { EngineCache } from "../spawn/engine-cache.ts";
import type { LaunchedProcess } from "../spawn/launched-process.ts";
import type { PythonSetup, PythonSources } from "../spawn/python-setup.ts";
import { WorkerStartup } from "../spawn/worker-startup.ts";
import type { SentBundle, WorkerJob, WorkerSources, WorkerStart } from "../worker-job.ts";
import { WORKER_KINDS, type WorkerKind } from "../worker-kind.ts";
import { type CallListener, LossEvent } from "./call-events.ts";
import { ProcessCalls } from "./process-calls.ts";
import { ProcessInspection, type SendInspection } from "./process-inspection.ts";
import { type CallMessage, WorkerCall } from "./worker-call.ts";
import { WorkerChannel } from "./worker-channel.ts";
import { type ToolUse, WorkerContents, type WorkerIsolates } from "./worker-contents.ts";

/** Returns the initial state of a repeatable call without its turns, which are sent apart. */
const toStart = ({ seed, now, mode = "virtual", rollbackMs }: Deterministic): Omit<Deterministic, "turns"> => ({
  seed,
  now,
  mode,
  ...(rollbackMs === undefined ? {} : { rollbackMs }),
});

/** Longest time in ms from `ended` or `cancel` to `released`. After that only SIGKILL can stop the isolate. */
const RELEASE_MS = 200;
/** The same for a process that waits for a core most of that time. */
const MAX_RELEASE_MS = 1_000;
/** The same for a call that is cancelled while its process reads no messages. Then only SIGKILL stops it early. */
const INSIDE_RELEASE_MS = 20;
/**
 * With idle scheduling a process may get no CPU time while others keep all cores busy. After this many ms it starts at
 * normal priority.
 */
const MAX_IDLE_START_MS = 250;
/** Time in ms to read the remaining output after SIGKILL or after the worker's exit. */
const DRAIN_MS = 250;
/**
 * Maximum number of bytes that the host buffers for a worker that does not read. An attacker could otherwise exhaust the host's
 * memory.
 */
const MAX_PENDING_BYTES = 128 * 1024 * 1024;
const MiB = 1024 * 1024;
/** Frame limit until a call allows larger frames. */
const FIRST_FRAME_BYTES = MiB;
/** V8's heap limit is a guideline (README of isolated-vm). Memory beyond twice the limit has bypassed it. */
const GROWTH_FACTOR = 2;
const hasUncounted = ({ descriptors }: WorkerToolProfile): boolean =>
  descriptors !== undefined && Object.values(descriptors).some(({ uncounted }) => uncounted !== undefined);

export class WorkerProcess {
  readonly #process: LaunchedProcess;
  readonly #channel: WorkerChannel;
  readonly #calls = new ProcessCalls();
  readonly #contents: WorkerContents;
  readonly #startup: WorkerStartup;
  /** Set for Python processes only. */
  readonly #python: PythonSetup | undefined;
  #isStuck = false;
  readonly #launcher: Launcher;
  readonly #inspection: ProcessInspection;
  readonly #onChange: (worker: WorkerProcess) => void;
  readonly #monitor: ProcessMonitor;
  readonly #awake = new StayAwake();
  #lastSeq = 0;
  #drainTimer: RunningTimer | undefined;
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
  /** When a short call was last placed in it, by performance.now(). */
  lastShortAt = Number.NEGATIVE_INFINITY;
  /** Calls that the process may run at once; see WorkerPool. */
  window = 0;
  /** Recent CPU usage in cores: 1 is one thread that is always busy. */
  cpuRate = 0;
  /** Whether it was started with idle scheduling. */
  readonly idlePriority: boolean;
  readonly kind: WorkerKind;
  /** Data limit of the operating system, if it differs from the default. */
  readonly dataBytes: number | undefined;
  /** What a Python process was started from. */
  readonly interpreter: PythonSources | undefined;
  /** The host gave it up because it took too long to start. */
  isLate = false;
  /** `performance.now()` when it last ran a call, or when it was ready. */
  lastUsed: number = performance.now();

  /** @param onChange called when a call is released, when the worker is ready, and when it has died */
  constructor(sources: WorkerSources, onChange: (worker: WorkerProcess) => void, start: WorkerStart = {}) {
    const { kind = "plain", dataBytes, interpreter = sources.python, ...rest } = start;
    const options: StartOptions = { ...rest, ...(dataBytes === undefined ? {} : { dataBytes }) };
    this.kind = kind;
    this.dataBytes = dataBytes;
    this.interpreter = kind === "python" ? interpreter : undefined;
    this.#monitor = new ProcessMonitor(WORKER_KINDS[kind].idleWorkMs);
    this.#onChange = onChange;
    this.#launcher = sources.launcher;
    this.idlePriority = options.idlePriority === true && sources.launcher.supportsIdlePriority;
    this.#channel = new WorkerChannel(
      {
        onFrame: (frame) => this.#receive(frame),
        onProtocolError: () => {
          this.#endReason ??= "protocol-violation";
          this.kill();
        },
        onClosed: () => {
          this.#process.kill();
          this.#drainOutput();
        },
      },
      FIRST_FRAME_BYTES,
    );
    this.#contents = new WorkerContents(this.#channel);
    const sendInspection: SendInspection = (message, parts) => {
      if (!this.#dead) this.#channel.write(message, parts);
      if (this.#channel.pendingBytes > MAX_PENDING_BYTES) this.end("output-unread");
    };
    this.#inspection = new ProcessInspection(sources.inspector, this.#calls, sendInspection, () => {
      if (!this.#dead) this.#onChange(this);
    });
    this.#startup = new WorkerStartup(this.#channel, sources, {
      isInspected: this.#inspection.isEnabled,
      onLate: () => {
        this.isLate = true;
        this.kill();
      },
    });
    if (kind === "python") {
      if (this.interpreter === undefined) throw new Error("The Python runtime is not configured");
      this.#python = this.#startup.openPython(this.interpreter);
      this.#contents.addBundle(this.interpreter.sha256);
    }
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
  /** Takes no more calls: it has received the most bundles allowed, has inspected a call, or runs code that cannot be stopped. */
  get acceptsNoCalls(): boolean {
    return this.#isStuck || this.#contents.isFull || this.#inspection.hasBegun;
  }
  /** Whether it has isolates of sessions, or one that the inspector holds, although no call may run in it. */
  get mustStayOpen(): boolean {
    return this.hasSessions || this.#inspection.isHeld;
  }
  /** Calls in the process, including calls that have ended but may still run. */
  get callCount(): number {
    return this.#calls.size;
  }
  /** Calls in the process that are not paused for an answer of their caller. A paused call computes nothing. */
  get activeCalls(): number {
    return this.#calls.busy;
  }
  /** Calls in the process that may be short: they have just begun, and are not paused for an answer of their caller. */
  get newCalls(): number {
    return this.#calls.newCalls;
  }
  /** Whether it has calls, and each waits for the result of another call. */
  get isNesting(): boolean {
    return this.#calls.areNesting;
  }
  /** Calls that the calls of the process wait for. */
  get awaitedCalls(): number {
    return this.#calls.awaited;
  }
  /** Whether a call keeps the process from reading messages; see `mainThreadMs` in host-messages.ts. */
  get runsOnMainThread(): boolean {
    return this.#calls.runsOnMainThread;
  }
  /** Whether the process may run a call on its main thread: no other call is in it. */
  get isFree(): boolean {
    return this.#ready && this.#calls.size === 0 && this.kind === "plain" && !this.#inspection.isEnabled;
  }
  /** Whether it crashed or had to be killed because of the code in it. */
  get hasFailed(): boolean {
    if (!this.#dead) return false;
    return this.#isStuck || FAULT_REASONS.has(this.#endReason ?? "stopped") || isCrash(this.#process.ending);
  }
  /** A call in it has ended but has not stopped. The whole process may have to be killed. */
  get isReleasing(): boolean {
    return this.#calls.isReleasing;
  }
  /** Average CPU time in ms of each call in it, since the oldest of them started. */
  get cpuMsPerCall(): number {
    return this.#calls.cpuMsPerCall(this.#monitor.cpuMs);
  }
  /** Whether session isolates would be lost with the process. */
  get hasSessions(): boolean {
    return this.#contents.hasSessions;
  }
  /** Number of calls that the process has received so far. */
  get servedCalls(): number {
    return this.#lastSeq;
  }
  /** See `WorkerInfo`. */
  get isolates(): WorkerIsolates {
    const { warm, ...rest } = this.#contents.isolatesOf(this.#calls);
    // After its first call, the process loads the next interpreter without a report.
    return { ...rest, warm: warm + Number(this.isPythonReady && this.servedCalls === 0) };
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
    const warmKey = this.#contents.keepWarm(order, limits.memoryMiB);
    const session = order.type === "call" ? order.session?.id : undefined;
    if (session !== undefined) this.#contents.addSession(session, limits.memoryMiB);
    const call = new WorkerCall({
      seq,
      listener,
      limits,
      warmKey,
      session,
      rssBytes: this.rssBytes,
      cpuMs: this.#monitor.cpuMs,
      hasUncounted: order.type === "call" && hasUncounted(order.tool),
      leftMs: onMainThread ? leftMs : undefined,
    });
    this.#calls.add(call);
    this.#updateReference();
    this.#send(seq, { order, bundle, input, inputBytes }, call);
    if (this.#ready) listener.onPlaced();
    return seq;
  }

  #send(seq: number, { order, bundle, input, inputBytes }: WorkerJob, call: WorkerCall): void {
    this.#contents.sendBundle(bundle);
    if (order.type === "extract") call.frame = this.#channel.write({ ...order, seq });
    else {
      const { type, tool, callId, tenantId, stream, deterministic, session, prewarm } = order;
      const toolId = this.#contents.sendTool(tool);
      this.#contents.recordCaller(tool, tenantId);
      const mainThreadMs = call.enterMainThread();
      const turns = deterministic?.turns ?? [];
      const message = { type, seq, toolId, callId, tenantId, stream, session, prewarm, mainThreadMs };
      const parts = inputBytes === undefined ? [input] : [input, ...inputBytes];
      if (turns.length > 0) parts.push(...(inputBytes === undefined ? ["", ""] : []), JSON.stringify(turns));
      call.frame = this.#channel.write(
        deterministic === undefined ? message : { ...message, deterministic: toStart(deterministic) },
        parts,
      );
      if (session?.once === true) this.#contents.dropOneTimeTool(tool, bundle);
    }
  }

  /** Id that the worker knows the tool by; undefined if it was never sent. */
  toolIdOf(profile: WorkerToolProfile): number | undefined {
    return this.#contents.toolIdOf(profile);
  }

  /** Tenants that use a tool here, with the isolates that each needs. */
  usesOf(profile: WorkerToolProfile): readonly ToolUse[] {
    return this.#contents.usesOf(profile, this.#calls);
  }

  /** Releases the warm isolates of a tool, and its bundle if no other tool uses it. Running calls continue. */
  release(profile: WorkerToolProfile, bundle: SentBundle | undefined): void {
    if (!this.#dead) this.#contents.release(profile, bundle);
  }

  /** Disposes the session's isolate. Calling it twice is a no-op. */
  endSession(session: number): void {
    if (!this.#contents.deleteSession(session) || this.#dead) return;
    this.#channel.write({ type: "end-session", session });
    if (this.callCount === 0) this.#onChange(this);
  }

  /** Ends a call's isolate. The process is killed if the isolate does not stop within `RELEASE_MS`. */
  cancel(seq: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    call.isCancelled = true;
    this.#channel.write({ type: "cancel", seq });
    // The worker ends a call on its main thread at its deadline by itself. Earlier it cannot read the message.
    if (call.runsOnMainThread && (call.leftMs ?? 0) > INSIDE_RELEASE_MS) {
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

  setPaused(seq: number, isPaused: boolean): void {
    const call = this.#calls.get(seq);
    if (call !== undefined) call.pauses += isPaused ? 1 : -1;
  }

  /** Grants a call `chunks` more chunks, because the reader has taken as many. */
  credit(seq: number, chunks: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    call.credit(chunks);
    this.#channel.write({ type: "credit", seq, chunks });
  }

  /** Sends a capability's answer to a call. An ended call receives nothing. */
  #deliver(seq: number, requestId: number, envelope: string, latencyMs?: number): void {
    const call = this.#calls.get(seq);
    if (call === undefined || call.hasEnded) return;
    const mainThreadMs = this.#calls.size === 1 ? call.enterMainThread() : undefined;
    this.#channel.write({ type: "capability-result", seq, requestId, mainThreadMs, latencyMs }, [envelope]);
    // A guest that is not delayed by other calls often answers at once, with its result or the next request.
    if (mainThreadMs !== undefined) this.#awake.expectReply();
    if (this.#channel.pendingBytes > MAX_PENDING_BYTES) this.end("output-unread");
  }

  /**
   * Requests the code caches of the platform modules. Only for a process that has received no call and takes none
   * before it has answered.
   */
  requestModuleCaches(cache: EngineCache): void {
    this.#startup.requestModuleCaches(cache);
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
    if (this.runsOnMainThread) this.#monitor.recordMessage();
    const failure = this.#monitor.check(elapsedMs, this.#ceilingBytes, () => this.#channel.write({ type: "ping" }));
    for (const call of this.#calls) call.meter(this.rssBytes);
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
    if (!this.#ready || this.callCount > 0) return;
    const failure = this.#monitor.checkIdle(this.#ceilingBytes);
    if (failure !== undefined) this.end(failure);
  }

  /** CPU time in ms since the previous call of this method. */
  takeCpuMs(): number {
    return this.#monitor.takeCpuMs();
  }

  /** Resident memory in bytes that the contents of the process may reach. */
  get #ceilingBytes(): number {
    const memoryMiB = this.#contents.memoryMiBOf(this.#calls);
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
    this.#drainTimer ??= new RunningTimer(DRAIN_MS, () => this.#die(false));
  }

  /** @param isDrained whether everything that the process sent has been read */
  #die(isDrained: boolean): void {
    if (this.#dead) return;
    if (isDrained && !this.#channel.isDrained) {
      setImmediate(() => this.#die(true));
      return;
    }
    this.#dead = true;
    this.#drainTimer?.[Symbol.dispose]();
    this.#startup[Symbol.dispose]();
    this.#channel[Symbol.dispose]();
    this.#monitor[Symbol.dispose]();
    const open = [...this.#calls].filter((call) => !call.hasEnded);
    const isOutOfMemory =
      this.#endReason === "memory" || (this.#endReason === undefined && OUT_OF_MEMORY.test(this.diagnostics));
    const isSuspect = isOutOfMemory || isCrash(this.#process.ending);
    for (const call of this.#calls) call.release();
    this.#calls.clear();
    this.#inspection.end();
    const event = new LossEvent(this.#ready ? "A worker process ended before its calls did" : this.diagnostics);
    for (const call of open) {
      const begun = this.#ready && this.#channel.mayBeRead(call.frame) && call.hasBegun(isDrained);
      const loss = { begun, outOfMemory: isOutOfMemory && open.length === 1, isSuspect, event };
      call.listener.onLost(loss, call.peakBytes);
    }
    this.#onChange(this);
  }

  /** @param waitedBefore what the process had waited for a core at the end of the call, in ms */
  #expectRelease(
    call: WorkerCall,
    waitedBefore: number = this.#monitor.waitedMs,
    leftMs: number = MAX_RELEASE_MS,
  ): void {
    call.expectRelease(RELEASE_MS, () => {
      const waitedMs = this.#monitor.waitedMs - waitedBefore;
      // On a busy machine, it may not have had a core yet to stop the call.
      if (waitedMs > RELEASE_MS / 2 && leftMs > RELEASE_MS) {
        call.release();
        this.#expectRelease(call, waitedBefore + waitedMs, leftMs - RELEASE_MS);
        return;
      }
      call.listener.onStuck();
      this.end("stuck");
    });
  }

  #receive([message, ...parts]: Frame): void {
    if (message.length > MAX_MESSAGE_BYTES) throw new Error("A message of the worker exceeds the size limit");
    const parsed = parseWorkerMessage(message.toString());
    this.#monitor.recordMessage();
    this.#awake.recordReply();
    if (parsed.type === "ready") this.#becomeReady(parts);
    else if (parsed.type === "pong") {
      if (!this.#monitor.acceptPong()) throw new Error("The worker sent a pong without a ping");
    } else if (parsed.type === "python-ready") this.#becomePythonReady(parts);
    else if (parsed.type === "module-caches") this.#startup.acceptModuleCaches(parts, this.servedCalls);
    else if (parsed.type === "inspect-open") this.#inspection.begin(parsed.seq);
    else if (parsed.type === "inspected") this.#inspection.receive(parsed.seq, parts);
    else if (parsed.type === "stuck") {
      this.#isStuck = true;
      if (this.callCount === 0) this.end("stuck");
    } else this.#receiveForCall(parsed, parts);
  }

  #receiveForCall(parsed: CallMessage, parts: readonly Buffer[]): void {
    const call = this.#calls.get(parsed.seq);
    if (call === undefined || !this.#ready) throw new Error("The worker named an unknown call");
    const isTooLarge = parsed.type === "ended" && this.#meterNow(call);
    if (parsed.type === "ended" && call.session !== undefined && parsed.kept !== true)
      this.#contents.deleteSession(call.session);
    call.receive(parsed, parts, (requestId, envelope, latencyMs) =>
      this.#deliver(parsed.seq, requestId, envelope, latencyMs),
    );
    if (parsed.type === "parked") this.#onChange(this);
    else if (parsed.type === "ended" && !parsed.released) {
      if (this.#inspection.isOf(parsed.seq)) this.end("interrupted");
      else this.#expectRelease(call);
    } else if (parsed.type === "released" || parsed.type === "ended") this.#release(parsed.seq, call);
    if (isTooLarge) this.end("memory");
  }

  /**
   * Reads memory again when a call ends, since it may have grown between two readings.
   * @returns whether the process exceeds its ceiling
   */
  #meterNow(call: WorkerCall): boolean {
    if (this.rssBytes < WORKER_KINDS[this.kind].baseBytes) return false;
    this.#monitor.refresh();
    call.meter(this.rssBytes);
    return this.rssBytes > this.#ceilingBytes;
  }

  #becomeReady(parts: readonly Buffer[]): void {
    if (this.#ready) throw new Error("The worker sent ready twice");
    this.#startup.acceptReady(parts);
    this.#ready = true;
    this.lastUsed = performance.now();
    this.#monitor.attach();
    this.#updateReference();
    for (const call of this.#calls) {
      call.startMeter(this.rssBytes);
      if (call.isCancelled) this.#expectRelease(call);
      else call.listener.onPlaced();
    }
    this.#onChange(this);
  }

  #becomePythonReady(parts: readonly Buffer[]): void {
    if (!this.#ready) throw new Error("The worker reported an interpreter that was not requested");
    this.#startup.acceptPython(parts);
    this.#onChange(this);
  }

  #release(seq: number, call: WorkerCall): void {
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
