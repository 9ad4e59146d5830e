// Runs one call inside the worker: obtains its isolate, meters and limits it, and reports its progress to the host.

import type { Limits } from "../contract/limits.ts";
import { INTERPRETER_CRASHED } from "../protocol/guest-messages.ts";
import type { Send, WorkerUsage } from "../protocol/worker-messages.ts";
import { type AssignedCall, type Assignment, warmKey } from "./assignment.ts";
import { CallOutput } from "./call-output.ts";
import type { CpuShare, CpuShareAccount } from "./cpu-share.ts";
import type { WorkerInspection } from "./inspection.ts";
import type { GuestBytes, GuestDeadline, GuestEnd, IsolateStop } from "./isolate/guest-call.ts";
import type { ToolIsolate } from "./isolate/tool-isolate.ts";
import type { IsolatePool } from "./isolate-pool.ts";
import { isPython, type PreparingCall, prepareIsolate, takeWarmIsolate } from "./obtain-isolate.ts";

const DENIED = JSON.stringify({ ok: false, code: "CAPABILITY_DENIED", message: "This capability was not granted" });
const TOO_LARGE = JSON.stringify({
  ok: false,
  code: "PARAM_INVALID",
  message: "The input of this capability call is too large",
});

/** Parts of the worker that a call uses. */
export interface CallDependencies {
  readonly pool: IsolatePool;
  readonly cpuShare: CpuShare;
  readonly send: Send;
  /** Sends the messages that wait for the end of this turn of the event loop. */
  readonly flush: () => void;
  /** Set if the host started the worker for inspection. */
  readonly inspection?: WorkerInspection | undefined;
}

/**
 * Longest wait in ms for an isolate to become idle that is kept after its call: for a session, or for the client of an inspection. It is worth a
 * longer wait, on a busy machine too.
 */
const KEPT_SETTLE_MS = 1_000;
/** Longest text of a failed outcome, in UTF-16 code units. 100 typical issues take 50 KB; the host kills a process that sends 1 MiB. */
const MAX_FAILURE_LENGTH = 256 * 1024;

/** Runs one `call` or `extract` message. Sends exactly one `ended`, and later `released` if the guest had not stopped at that time. */
export class ActiveCall implements PreparingCall, CpuShareAccount {
  readonly #assignment: Assignment;
  readonly #pool: IsolatePool;
  readonly #cpuShare: CpuShare;
  readonly #output: CallOutput;
  readonly #inspection: WorkerInspection | undefined;
  #isolate: ToolIsolate | undefined;
  #phase: "load" | "execute" = "load";
  #cancelled = false;
  /** Whether the host knows that the tool runs. */
  #isAnnounced = false;
  /** Whether the host requested idle reports. */
  #isWatched = false;
  /** Last reported idle state. Undefined if it is outdated. */
  #reportedIdle: boolean | undefined;
  #hasEnded = false;
  /** Part of the isolate's busy time that was already charged or was spent before this call. */
  #chargedBusyMs = 0;
  #cpuMs = 0;
  #startMs = 0;
  #executeMs = 0;
  /** Messages of the host that the guest processes on the main thread at present. */
  #entries = 0;

  constructor(assignment: Assignment, { pool, cpuShare, send, flush, inspection }: CallDependencies) {
    this.#assignment = assignment;
    // The extraction of a definition cannot be inspected.
    this.#inspection = assignment.call === undefined ? undefined : inspection;
    this.#cpuShare = cpuShare;
    this.#pool = pool;
    this.#output = new CallOutput(assignment, send, flush);
  }

  get #limits(): Limits {
    return this.#assignment.limits;
  }

  /** Runs the call. Resolves when all its code has stopped. Never rejects. */
  async run(input: string): Promise<void> {
    const { seq, bundle, call } = this.#assignment;
    let end: GuestEnd;
    let codeCache: Uint8Array | undefined;
    try {
      end = await this.#runToEnd(input);
      if (call === undefined && end.outcome === "output" && (await this.#isolate?.settle())) {
        codeCache = this.#isolate?.makeCodeCache(bundle);
        // The same process often runs the tool next, and the host does not send it the cache that it created itself.
        if (codeCache !== undefined) this.#pool.addBundle(bundle.sha256, bundle.code, codeCache);
      }
    } catch {
      end = { outcome: "isolate-failed", text: "" };
    }
    end = this.#limitEnd(end);
    // Reading the heap can reveal that the isolate exceeded its memory limit, so check afterwards whether it is still usable.
    const hasStopped = await this.#finishMeters();
    const usage = this.#usage();
    const settled = hasStopped && this.#isolate?.isDisposed === false;
    if (!settled) end = this.#withLateMemoryFailure(end);
    this.#isAnnounced = true;
    this.#hasEnded = true;
    this.#output.closeChunks();
    this.#output.sendTurns();
    const parts = codeCache === undefined ? partsOf(end) : [end.text, codeCache];
    const usedModules = this.#pool.takeUsedModules(bundle);
    const ended = { type: "ended", seq, outcome: end.outcome, phase: this.#phase, usage, usedModules } as const;
    const isolate = this.#isolate;
    const isInspected = this.#inspection?.isOf(seq) === true;
    if (settled && isolate !== undefined) {
      // No guest code runs any more, so `ended` is sent before the isolate is disposed or reused.
      isolate.detachCall();
      const kept = this.#keepForSession(isolate, end);
      this.#output.send({ ...ended, released: true, ...(kept ? { kept: true } : {}) }, parts);
      if (!isInspected && !kept) this.#releaseIsolate(isolate, end);
      return;
    }
    const stopped = isolate?.dispose();
    // A client cannot inspect a disposed isolate: the host ends the process, and tells it.
    const released = isolate?.isRunning !== true && !isInspected;
    this.#output.send({ ...ended, released }, parts);
    if (released) return;
    await stopped;
    this.#output.send({ type: "released", seq });
  }

  /**
   * Turns the result into a memory failure if V8 ended the isolate for its memory limit after the guest had returned its result. Otherwise
   * a session or a warm isolate would lose its state although the caller received a success.
   */
  #withLateMemoryFailure(end: GuestEnd): GuestEnd {
    if (this.#isolate?.isOutOfMemory !== true || this.#cancelled) return end;
    return { outcome: "memory", text: "" };
  }

  /** Keeps the isolate for the session's next call, also after a failed call. Returns false if it cannot be kept. */
  #keepForSession(isolate: ToolIsolate, end: GuestEnd): boolean {
    const { call } = this.#assignment;
    if (call?.session === undefined || (this.#isPython && hasCrashed(end))) return false;
    this.#pool.sessions.set(call.session.id, isolate);
    return true;
  }

  /**
   * Enforces `outputBytes` in bytes, since the guest can only count UTF-16 code units. Drops the text of a failure that is too long: it is
   * only a message for people.
   */
  #limitEnd(end: GuestEnd): GuestEnd {
    const { length } = end.text;
    if (end.outcome !== "output") return length > MAX_FAILURE_LENGTH ? { outcome: end.outcome, text: "" } : end;
    const { bytes, content } = end;
    const attachedBytes = (bytes?.data.byteLength ?? 0) + (content?.bytes?.data.byteLength ?? 0);
    const outputBytes = this.#limits.outputBytes - this.#output.chunkBytes - attachedBytes;
    const textLength = length + (content?.text.length ?? 0);
    const fits =
      textLength * 3 <= outputBytes ||
      Buffer.byteLength(end.text) + Buffer.byteLength(content?.text ?? "") <= outputBytes;
    return fits ? end : { outcome: "too-large", text: String(textLength + attachedBytes) };
  }

  async #runToEnd(input: string): Promise<GuestEnd> {
    const started = performance.now();
    const { seq, call } = this.#assignment;
    if (call?.prewarm !== undefined) return await this.#prewarm();
    const mayBeWarm = call !== undefined && this.#inspection === undefined;
    const warm = mayBeWarm ? takeWarmIsolate(this.#assignment, call, this.#pool) : undefined;
    if (warm === undefined) {
      this.#output.send({ type: "preparing", seq });
      const failure = await this.#prepare();
      this.#startMs = performance.now() - started;
      if (failure !== undefined) return failure;
      this.#announce();
    } else {
      this.adopt(warm, warm.busyMs);
      this.#startMs = performance.now() - started;
    }
    if (this.#isolate === undefined || this.#cancelled) return { outcome: "cancelled", text: "" };
    const executeStarted = performance.now();
    const end = await this.#enter(this.#isolate, input);
    this.#executeMs = performance.now() - executeStarted;
    return end;
  }

  async #prewarm(): Promise<GuestEnd> {
    this.#output.send({ type: "preparing", seq: this.#assignment.seq });
    const failure = await this.#prepare();
    if (failure === undefined && this.#cancelled) return { outcome: "cancelled", text: "" };
    return failure ?? { outcome: "output", text: "null" };
  }

  /** Whether the bundle is the Python runtime. */
  get #isPython(): boolean {
    return isPython(this.#assignment, this.#pool);
  }

  #enter(isolate: ToolIsolate, input: string): Promise<GuestEnd> {
    const { call } = this.#assignment;
    if (call === undefined) return isolate.describe();
    this.#phase = "execute";
    const { tool, callId, tenantId, bytes, stream, mainThreadMs } = call;
    const until = mainThreadMs === undefined ? undefined : this.#enterMainThread(mainThreadMs);
    return isolate.call({ header: tool.header, input, callId, tenantId, bytes, stream, until }, this);
  }

  /** Counts an entry on the main thread, and returns its deadline: the time that the host allows, or the rest of `cpuMs`. */
  #enterMainThread(mainThreadMs: number): GuestDeadline {
    this.#entries += 1;
    const enteredAt = performance.now();
    this.#output.enteredAt = enteredAt;
    const cpuLeftMs = this.#limits.cpuMs - this.#cpuMs;
    return cpuLeftMs < mainThreadMs
      ? { at: enteredAt + cpuLeftMs, reason: "cpu" }
      : { at: enteredAt + mainThreadMs, reason: "cancelled" };
  }

  /** The guest has left the main thread. If the call continues, the host may send other calls meanwhile. */
  onLeft(): void {
    const entries = this.#entries;
    this.#entries = 0;
    this.#output.enteredAt = undefined;
    if (entries > 0) this.#output.send({ type: "parked", seq: this.#assignment.seq, entries });
  }

  /** Obtains an isolate and loads the bundle into it. Returns the failure, or undefined on success. */
  #prepare(): Promise<GuestEnd | undefined> {
    return prepareIsolate(this.#assignment, this.#pool, this.#inspection, this);
  }

  adopt(isolate: ToolIsolate, busyMs: number): void {
    this.#isolate = isolate;
    this.#output.isolate = isolate;
    this.#chargedBusyMs = busyMs;
  }

  get isCancelled(): boolean {
    return this.#cancelled;
  }

  takeBusyMs(): number {
    const isolate = this.#isolate;
    if (isolate === undefined || isolate.isDisposed) return 0;
    const { busyMs } = isolate;
    const uncharged = busyMs - this.#chargedBusyMs;
    this.#chargedBusyMs = busyMs;
    return uncharged;
  }

  /** Reports `started` once the tool executes. Called every 10 ms, so most short calls never send it. */
  announce(): void {
    if (this.#phase === "execute") this.#announce();
  }

  #announce(): void {
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    this.#output.send({ type: "started", seq: this.#assignment.seq });
  }

  /** Starts or stops idle reports. The host pauses the call's clock while the guest only waits for the client. */
  watchIdle(isWatched: boolean): void {
    this.#isWatched = isWatched;
    this.#reportedIdle = undefined;
    this.reportIdle();
  }

  /** Reports a change of the idle state. Called every 10 ms. A guest with pending timers counts as busy. */
  reportIdle(): void {
    if (!this.#isWatched || this.#hasEnded || this.#phase !== "execute") return;
    const isolate = this.#isolate;
    const isIdle = isolate !== undefined && !isolate.isRunning && !isolate.hasTimers;
    // The host of a durable run must know which of its answers the guest has received. New turns make an earlier report outdated.
    const hasMoved = isIdle && this.#output.sendTurns();
    if (isIdle === this.#reportedIdle && !hasMoved) return;
    this.#reportedIdle = isIdle;
    this.#output.send({ type: "idle", seq: this.#assignment.seq, isIdle });
  }

  /** Whether the call probably keeps a core busy. */
  get isWorking(): boolean {
    return this.#phase === "load" || this.#isolate?.isRunning === true;
  }

  /** Adds CPU time to the call, and stops it if it exceeds `cpuMs`. Called every 10 ms while the call runs. */
  charge(cpuMs: number): void {
    this.#cpuMs += cpuMs;
    if (this.#cpuMs > this.#limits.cpuMs && this.#isolate?.isRunning) this.#stop("cpu");
  }

  /** Charges the time since the last charge, at the last measured rate. Reading the process's CPU time for each call would cost more. */
  #chargeRest(): void {
    this.#cpuMs += this.takeBusyMs() * this.#cpuShare.factor;
  }

  /** Stops the call on the host's request. */
  cancel(): void {
    this.#cancelled = true;
    this.#stop("cancelled");
    this.#inspection?.go(this.#assignment.seq);
  }

  #stop(reason: IsolateStop): void {
    const isolate = this.#isolate;
    if (isolate === undefined) return;
    this.#chargeRest();
    void isolate.dispose(reason);
  }

  /**
   * @param mainThreadMs time on the main thread, if the guest may run there
   * @param latencyMs how long the capability took in the recording, for a call that is rehearsed
   */
  deliver(requestId: number, envelope: string, mainThreadMs?: number, latencyMs?: number): void {
    this.#reportedIdle = undefined;
    this.#isolate?.deliver(
      requestId,
      envelope,
      mainThreadMs === undefined ? undefined : this.#enterMainThread(mainThreadMs),
      latencyMs,
    );
  }

  /** Lets a streaming tool produce this number of further chunks. */
  credit(chunks: number): void {
    this.#isolate?.credit(chunks);
  }

  onChunk(text: string, bytes: GuestBytes | undefined): void {
    if (!this.#output.chunk(text, bytes)) this.#stop("too-large");
  }

  onLog(level: string, text: string, place?: string): void {
    this.#output.log(level, text, place);
  }

  onProgress(text: string): void {
    this.#output.progress(text);
  }

  onSpan(text: string): void {
    this.#output.span(text);
  }

  onCapability(requestId: number, name: string, text: string): void {
    const denial = this.#output.capability(requestId, name, text);
    // `deliver` also resets the reported idle state: a capability call is activity of the guest.
    if (denial !== undefined) this.deliver(requestId, denial === "denied" ? DENIED : TOO_LARGE);
  }

  /** Waits until the guest is idle and charges the rest of its CPU time. Returns false if the isolate cannot be used again. */
  async #finishMeters(): Promise<boolean> {
    const isolate = this.#isolate;
    if (isolate === undefined || isolate.isDisposed) return false;
    const { seq, call } = this.#assignment;
    const isKept = call?.session !== undefined || this.#inspection?.isOf(seq) === true;
    const settled = await isolate.settle(isKept ? KEPT_SETTLE_MS : undefined);
    if (isolate.isDisposed) return false;
    this.#chargeRest();
    return settled;
  }

  #usage(): WorkerUsage {
    return {
      cpuMs: Math.max(0, this.#cpuMs),
      heapBytes: this.#isolate?.heapBytes ?? 0,
      startMs: this.#startMs,
      executeMs: this.#executeMs,
      logsDropped: this.#output.logsDropped,
    };
  }

  #releaseIsolate(isolate: ToolIsolate, end: GuestEnd): void {
    const { call, bundle } = this.#assignment;
    if (call?.prewarm !== undefined) {
      this.#keepPrewarmed(isolate, end, call);
      return;
    }
    const hasSucceeded = !this.#isPython && (end.outcome === "output" || end.outcome === "streamed");
    const isReusable =
      call?.tool.isolateLifetime === "tool" &&
      !call.tool.isForgotten &&
      call.deterministic === undefined &&
      call.tool.isRecorded !== true &&
      !(this.#isPython && hasCrashed(end));
    if (isReusable && this.#phase === "execute") this.#pool.keep(warmKey(call), isolate);
    // The messages leave at the end of this turn of the event loop. Disposal comes after that, so that it does not delay the result.
    else if (call !== undefined && hasSucceeded) setImmediate(() => this.#pool.retire(isolate, bundle));
    else setImmediate(() => void isolate.dispose());
  }

  /** Keeps a prewarmed isolate, unless its top-level code failed or had side effects. */
  #keepPrewarmed(isolate: ToolIsolate, { outcome }: GuestEnd, call: AssignedCall): void {
    const { tool, prewarm } = call;
    const isQuiet =
      outcome === "output" && !this.#output.hasSideEffects && !isolate.hasTimers && tool.isForgotten !== true;
    if (!isQuiet) setImmediate(() => void isolate.dispose());
    else if (tool.isolateLifetime === "tool" && tool.isRecorded !== true) this.#pool.keep(warmKey(call), isolate);
    else this.#pool.warmIsolates.adopt(tool, isolate, prewarm?.like);
  }
}

/** Returns whether the Python interpreter crashed. A tool that fakes this error only loses its own isolate. */
const hasCrashed = ({ outcome, text }: GuestEnd): boolean =>
  outcome === "thrown" && text.includes(`"code":"${INTERPRETER_CRASHED}"`);

/** Returns the parts of an `ended` frame; see EndedSchema in worker-messages.ts. */
function partsOf({ text, bytes, content }: GuestEnd): (string | Uint8Array)[] {
  if (bytes === undefined && content === undefined) return [text];
  const parts = [text, bytes?.header ?? "", bytes?.data ?? ""];
  return content === undefined
    ? parts
    : [...parts, content.text, content.bytes?.header ?? "", content.bytes?.data ?? ""];
}
