// One call inside the worker: its isolate, its meters and caps, and the messages that tell the host how it goes.

import type { Limits } from "../contract/limits.ts";
import { type EngineFeature, INTERPRETER_CRASHED, type InvokeHeader } from "../protocol/guest-messages.ts";
import {
  LOG_LEVELS,
  type LogLevel,
  PLACE_PATTERN,
  type Send,
  type ToolMessage,
  type ToolProfile,
  type WorkerMessage,
  type WorkerUsage,
} from "../protocol/messages.ts";
import type { CpuShare, CpuShareAccount } from "./cpu-share.ts";
import type { Inspection } from "./inspection.ts";
import type { IsolatePool } from "./isolate-pool.ts";
import { OutputBuffer } from "./output-buffer.ts";
import type { Deterministic } from "./seeded-bytes.ts";
import type { GuestBytes, GuestEnd, GuestListener, IsolateStop, LoadableBundle, ToolIsolate } from "./tool-isolate.ts";

const isLogLevel = (level: string): level is LogLevel => LOG_LEVELS.includes(level as LogLevel);
const DENIED = JSON.stringify({ ok: false, code: "CAPABILITY_DENIED", message: "This capability was not granted" });
const TOO_LARGE = JSON.stringify({
  ok: false,
  code: "PARAM_INVALID",
  message: "The input of this host call is too large",
});

/** What a call or a learning run is to be run with. */
export interface Assignment {
  readonly seq: number;
  readonly bundle: LoadableBundle;
  readonly limits: Limits;
  readonly features: readonly EngineFeature[];
  readonly coarseTime: boolean;
  /** Undefined when the definition is to be learned. */
  readonly call: AssignedCall | undefined;
}

export interface AssignedCall {
  readonly tool: ToolProfile;
  readonly callId: string;
  readonly tenantId: string;
  /** Beside the input. */
  readonly bytes?: GuestBytes | undefined;
  /** Its chunks are wanted as they come. */
  readonly stream?: boolean | undefined;
  readonly deterministic?: Deterministic | undefined;
  /** Whose isolate it runs in. */
  readonly session?: AssignedSession | undefined;
  /** It is no call: the tool is loaded for one to come, whose calls come as those of the tool with the number `like`. */
  readonly prewarm?: { readonly like?: number | undefined } | undefined;
}

export interface AssignedSession {
  readonly id: number;
  /** An earlier run has left an isolate for it: where that is gone, the run fails. */
  readonly resumes?: true | undefined;
}

/** @param isPython its event loop takes its timers along by itself */
export function toToolProfile(message: ToolMessage, isPython = false): ToolProfile {
  const { granted, denied, shapes, limits, logPlaces, isolation } = message;
  const { outputBytes, logBytes, logLines, hostCalls, pendingHostCalls, timers } = limits;
  const header: InvokeHeader = {
    granted,
    denied,
    ...(shapes === undefined ? {} : { shapes }),
    outputBytes,
    logBytes,
    logLines,
    hostCalls,
    pendingHostCalls,
    timers,
    ...(logPlaces ? { logPlaces } : {}),
    ...(isolation === "session" && !isPython ? { goesOn: true } : {}),
  };
  return { ...message, header: JSON.stringify(header) };
}

/** What a call needs of its worker. */
export interface CallParts {
  readonly pool: IsolatePool;
  readonly cpuShare: CpuShare;
  readonly send: Send;
  /** Where the host has started the worker for it. */
  readonly inspection?: Inspection | undefined;
}

/** What a conversation has left is worth waiting for, on a busy machine too. */
const SESSION_SETTLE_MS = 1_000;
/** Of an outcome that is no output. A hundred issues of usual length are 50 KB; the host kills a process that sends 1 MiB. */
const MAX_END_UNITS = 256 * 1024;

/** Runs one `call` or `learn`. Sends exactly one `ended`, and `released` if the guest had not stopped by then. */
export class ActiveCall implements GuestListener, CpuShareAccount {
  readonly #assignment: Assignment;
  readonly #pool: IsolatePool;
  readonly #cpuShare: CpuShare;
  readonly #sendNow: Send;
  /** Of a call whose chunks are wanted. */
  readonly #chunks: OutputBuffer | undefined;
  readonly #inspection: Inspection | undefined;
  #isolate: ToolIsolate | undefined;
  #phase: "load" | "execute" = "load";
  #cancelled = false;
  /** The tool has logged or requested something while it was loaded ahead: only a call may see that. */
  #hasSpoken = false;
  /** The host knows that the tool runs. */
  #isAnnounced = false;
  /** The host wants to know whether the guest is idle; what it was last told, undefined where that no longer holds. */
  #isWatched = false;
  #idleTold: boolean | undefined;
  #hasEnded = false;
  /** Of the isolate's time, what has been charged for, or was spent before this call. */
  #busyMsTaken = 0;
  #cpuMs = 0;
  #logBytes = 0;
  #logLines = 0;
  #logsDropped = 0;
  #startMs = 0;
  #executeMs = 0;

  constructor(assignment: Assignment, { pool, cpuShare, send, inspection }: CallParts) {
    this.#assignment = assignment;
    // What a bundle is learned from nobody looks at.
    this.#inspection = assignment.call === undefined ? undefined : inspection;
    this.#cpuShare = cpuShare;
    this.#pool = pool;
    this.#sendNow = send;
    const { seq, limits, call } = assignment;
    if (call?.stream !== true) return;
    this.#chunks = new OutputBuffer(limits, (parts) => send({ type: "chunks", seq }, parts));
  }

  #send(message: WorkerMessage, parts?: readonly (string | Uint8Array)[]): void {
    this.#chunks?.flush();
    this.#sendNow(message, parts);
  }

  get #limits(): Limits {
    return this.#assignment.limits;
  }

  /** Resolves when nothing of the call runs any more. Never rejects. */
  async run(input: string): Promise<void> {
    const { seq, bundle, call } = this.#assignment;
    let end: GuestEnd;
    let codeCache: Uint8Array | undefined;
    try {
      end = await this.#runToEnd(input);
      if (call === undefined && end.outcome === "output" && (await this.#isolate?.settle())) {
        codeCache = this.#isolate?.makeCodeCache(bundle);
        // The process that learned a bundle is often the one that runs it: it has no other way to hear of the cache.
        if (codeCache !== undefined) this.#pool.addBundle(bundle.sha256, bundle.code, codeCache);
      }
    } catch {
      end = { outcome: "isolate-failed", text: "" };
    }
    end = this.#capped(end);
    // Reading the heap may find that the isolate is over its memory limit, so whether the isolate can be used is decided afterwards.
    const hasLeft = await this.#finishMeters();
    const usage = this.#usage();
    const settled = hasLeft && this.#isolate?.isDisposed === false;
    if (!settled) end = this.#withLateDeath(end);
    this.#isAnnounced = true;
    this.#hasEnded = true;
    this.#chunks?.close();
    const parts = codeCache === undefined ? partsOf(end) : [end.text, codeCache];
    const touched = this.#pool.takeTouched(bundle);
    const ended = { type: "ended", seq, outcome: end.outcome, phase: this.#phase, usage, touched } as const;
    const isolate = this.#isolate;
    const stays = this.#inspection?.end(seq) === true;
    if (settled && isolate !== undefined) {
      // Nothing of it runs, nor will: what is left of the isolate is no concern of who waits.
      isolate.rest();
      const kept = this.#keepForSession(isolate, end);
      this.#send({ ...ended, released: true, ...(kept ? { kept: true } : {}) }, parts);
      if (!stays && !kept) this.#giveBack(isolate, end);
      return;
    }
    const stopped = isolate?.dispose();
    const released = isolate?.isRunning !== true;
    this.#send({ ...ended, released }, parts);
    if (released) return;
    await stopped;
    this.#send({ type: "released", seq });
  }

  /**
   * An isolate that V8 ended for its memory limit after the guest had given its result: the call has passed its limit. Without this a
   * session or a warm isolate would lose its state while the caller reads of a success.
   */
  #withLateDeath(end: GuestEnd): GuestEnd {
    if (this.#isolate?.isOutOfMemory !== true || this.#cancelled) return end;
    return { outcome: "memory", text: "" };
  }

  /** A run that failed leaves what it has done, as one that ended well does. */
  #keepForSession(isolate: ToolIsolate, end: GuestEnd): boolean {
    const { call } = this.#assignment;
    if (call?.session === undefined || (this.#isPython && hasCrashed(end))) return false;
    this.#pool.sessions.set(call.session.id, isolate);
    return true;
  }

  /** The guest has counted UTF-16 units; bytes count here. What it says of another end is text for a person. */
  #capped(end: GuestEnd): GuestEnd {
    const { length } = end.text;
    if (end.outcome !== "output") return length > MAX_END_UNITS ? { outcome: end.outcome, text: "" } : end;
    const { bytes, content } = end;
    const beside = (bytes?.data.byteLength ?? 0) + (content?.bytes?.data.byteLength ?? 0);
    const outputBytes = this.#limits.outputBytes - (this.#chunks?.bytes ?? 0) - beside;
    const units = length + (content?.text.length ?? 0);
    const fits =
      units * 3 <= outputBytes || Buffer.byteLength(end.text) + Buffer.byteLength(content?.text ?? "") <= outputBytes;
    return fits ? end : { outcome: "too-large", text: String(units + beside) };
  }

  async #runToEnd(input: string): Promise<GuestEnd> {
    const started = performance.now();
    const { seq, call } = this.#assignment;
    if (call?.prewarm !== undefined) return await this.#loadAhead();
    const warm = call === undefined ? undefined : this.#takeReady(call);
    if (warm === undefined) {
      this.#send({ type: "preparing", seq });
      const failure = await this.#prepare();
      this.#startMs = performance.now() - started;
      if (failure !== undefined) return failure;
      this.#announce();
    } else {
      this.#isolate = warm;
      this.#busyMsTaken = warm.busyMs;
      this.#startMs = performance.now() - started;
    }
    if (this.#isolate === undefined || this.#cancelled) return { outcome: "cancelled", text: "" };
    const begun = performance.now();
    const end = await this.#enter(this.#isolate, input);
    this.#executeMs = performance.now() - begun;
    return end;
  }

  async #loadAhead(): Promise<GuestEnd> {
    this.#send({ type: "preparing", seq: this.#assignment.seq });
    const failure = await this.#prepare();
    if (failure === undefined && this.#cancelled) return { outcome: "cancelled", text: "" };
    return failure ?? { outcome: "output", text: "null" };
  }

  /** An isolate in which the tool is loaded: one that its last call has left, or one that no call has touched. */
  #takeReady(call: NonNullable<Assignment["call"]>): ToolIsolate | undefined {
    if (this.#inspection !== undefined || call.session !== undefined) return undefined;
    // What earlier calls have left, or a top level that was run ahead, would be no part of what repeats.
    if (call.deterministic !== undefined) return undefined;
    if (call.tool.isolation === "tool") {
      const warm = this.#pool.takeIdle(warmKey(call));
      if (warm !== undefined || !this.#isPython) return warm;
    }
    return this.#isPython ? this.#pool.python?.take(call.tool) : this.#pool.spares.take(call.tool);
  }

  /** Its bundle is Python's. */
  get #isPython(): boolean {
    return this.#pool.python?.sha256 === this.#assignment.bundle.sha256;
  }

  #enter(isolate: ToolIsolate, input: string): Promise<GuestEnd> {
    const { call } = this.#assignment;
    if (call === undefined) return isolate.describe();
    this.#phase = "execute";
    const { tool, callId, tenantId, bytes, stream } = call;
    return isolate.call({ header: tool.header, input, callId, tenantId, bytes, stream }, this);
  }

  /** A new isolate with the bundle in it; undefined when it worked. */
  async #prepare(): Promise<GuestEnd | undefined> {
    const { seq, features, coarseTime, call } = this.#assignment;
    const session = call?.session;
    if (session !== undefined) {
      const kept = this.#pool.takeSession(session.id);
      if (kept !== undefined) return await this.#goOn(kept);
      // Its state is gone: a new isolate in its place would look as if the earlier runs had never been.
      if (session.resumes === true) return { outcome: "isolate-failed", text: "" };
    }
    const { memoryMiB } = this.#limits;
    const inspector = this.#inspection !== undefined;
    const deterministic = call?.deterministic;
    const python = this.#isPython ? this.#pool.python : undefined;
    if (python !== undefined && deterministic === undefined && !inspector) {
      const spare = await python.waitFor(this.#assignment);
      this.#isolate = spare;
      this.#busyMsTaken = spare?.busyMs ?? 0;
      if (spare !== undefined) return undefined;
      if (this.#cancelled) return { outcome: "cancelled", text: "" };
    }
    const options = { features, coarseTime, inspector, deterministic };
    this.#isolate = python?.create(options) ?? this.#pool.create({ ...options, memoryMiB });
    this.#isolate.boot();
    await this.#inspection?.open(seq, this.#isolate);
    const header = call?.prewarm === undefined ? undefined : call.tool.header;
    const end = await this.#isolate.load(this.#assignment.bundle, this, header);
    return end.outcome === "ready" ? undefined : end;
  }

  /** In the isolate that the session's last call has left; the bundle of a tool is there already, a cell brings its own. */
  async #goOn(isolate: ToolIsolate): Promise<GuestEnd | undefined> {
    this.#isolate = isolate;
    // It passed its memory limit between two runs, in work that an earlier run had left.
    if (isolate.isDisposed) return { outcome: isolate.isOutOfMemory ? "memory" : "isolate-failed", text: "" };
    this.#busyMsTaken = isolate.busyMs;
    const { bundle } = this.#assignment;
    if (isolate.hasLoaded(bundle)) return undefined;
    const end = await isolate.load(bundle, this);
    return end.outcome === "ready" ? undefined : end;
  }

  takeBusyMs(): number {
    const isolate = this.#isolate;
    if (isolate === undefined || isolate.isDisposed) return 0;
    const { busyMs } = isolate;
    const taken = busyMs - this.#busyMsTaken;
    this.#busyMsTaken = busyMs;
    return taken;
  }

  /** Called a hundred times a second while the call runs: one that is short has nothing to announce. */
  announce(): void {
    if (this.#phase === "execute") this.#announce();
  }

  #announce(): void {
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    this.#send({ type: "started", seq: this.#assignment.seq });
  }

  /** The host stops the call's clock while the guest waits for the caller and does nothing else. */
  watchIdle(isWatched: boolean): void {
    this.#isWatched = isWatched;
    this.#idleTold = undefined;
    this.reportIdle();
  }

  /** Called a hundred times a second while the call runs. A guest with timers of its own is at work between two of them, too. */
  reportIdle(): void {
    if (!this.#isWatched || this.#hasEnded || this.#phase !== "execute") return;
    const isolate = this.#isolate;
    const isIdle = isolate !== undefined && !isolate.isRunning && !isolate.hasTimers;
    if (isIdle === this.#idleTold) return;
    this.#idleTold = isIdle;
    this.#send({ type: "idle", seq: this.#assignment.seq, isIdle });
  }

  /** Whether it keeps a core busy, as far as that can be told. */
  get isWorking(): boolean {
    return this.#phase === "load" || this.#isolate?.isRunning === true;
  }

  /** Called a hundred times a second while the call runs. */
  charge(cpuMs: number): void {
    this.#cpuMs += cpuMs;
    if (this.#cpuMs > this.#limits.cpuMs && this.#isolate?.isRunning) this.#stop("cpu");
  }

  /** What has been spent since the last charge, at the last charge's rate: to ask the kernel for each call would cost more. */
  #chargeRest(): void {
    this.#cpuMs += this.takeBusyMs() * this.#cpuShare.factor;
  }

  /** The host has ended the call. */
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

  deliver(requestId: number, envelope: string): void {
    this.#idleTold = undefined;
    this.#isolate?.deliver(requestId, envelope);
  }

  /** So many more of its chunks have been taken. */
  credit(chunks: number): void {
    this.#isolate?.credit(chunks);
  }

  onChunk(text: string, bytes: GuestBytes | undefined): void {
    if (this.#chunks?.add(text, bytes) === false) this.#stop("too-large");
  }

  /** Notes what a tool says that is loaded ahead; true if nobody is to hear it. */
  #isAhead(): boolean {
    if (this.#assignment.call?.prewarm === undefined) return false;
    this.#hasSpoken = true;
    return true;
  }

  onLog(level: string, text: string, place?: string): void {
    if (this.#isAhead()) return;
    const { logBytes, logLines } = this.#limits;
    this.#logLines += 1;
    this.#logBytes += text.length;
    if (!isLogLevel(level) || this.#logLines > logLines || this.#logBytes > logBytes) {
      this.#logsDropped += 1;
      return;
    }
    const log = { type: "log", seq: this.#assignment.seq, level, time: Date.now() } as const;
    this.#send(place !== undefined && PLACE_PATTERN.test(place) ? { ...log, place } : log, [text]);
  }

  onProgress(text: string): void {
    if (this.#isAhead()) return;
    if (text.length <= 4_096) this.#send({ type: "progress", seq: this.#assignment.seq }, [text]);
  }

  onCapability(requestId: number, name: string, text: string): void {
    const { seq, call } = this.#assignment;
    const granted = call !== undefined && (name === "log" || call.tool.granted.includes(name));
    // A request is the guest at work, even if the host answers it before the next look.
    if (this.#isAhead() || !granted) this.deliver(requestId, DENIED);
    else if (text.length > this.#limits.inputBytes) this.deliver(requestId, TOO_LARGE);
    else this.#send({ type: "capability", seq, requestId, name }, [text]);
  }

  /** Reads the meters once the guest has left; false when its isolate cannot be used again. */
  async #finishMeters(): Promise<boolean> {
    const isolate = this.#isolate;
    if (isolate === undefined || isolate.isDisposed) return false;
    const settled = await isolate.settle(this.#assignment.call?.session === undefined ? undefined : SESSION_SETTLE_MS);
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
      logsDropped: this.#logsDropped,
    };
  }

  #giveBack(isolate: ToolIsolate, end: GuestEnd): void {
    const { call, bundle } = this.#assignment;
    if (call?.prewarm !== undefined) {
      this.#keepAhead(isolate, end, call);
      return;
    }
    const hasEndedWell = !this.#isPython && (end.outcome === "output" || end.outcome === "streamed");
    const mayStay =
      call?.tool.isolation === "tool" &&
      !call.tool.isForgotten &&
      call.deterministic === undefined &&
      !(this.#isPython && hasCrashed(end));
    if (mayStay && this.#phase === "execute") this.#pool.keep(warmKey(call), isolate);
    // What was sent leaves at the end of this turn: whoever waits for it need not wait for this.
    else if (call !== undefined && hasEndedWell) setImmediate(() => this.#pool.retire(isolate, bundle));
    else setImmediate(() => void isolate.dispose());
  }

  /** One that has done anything but load is no call's to find. */
  #keepAhead(isolate: ToolIsolate, { outcome }: GuestEnd, call: AssignedCall): void {
    const { tool, prewarm } = call;
    const isQuiet = outcome === "output" && !this.#hasSpoken && !isolate.hasTimers && tool.isForgotten !== true;
    if (!isQuiet) setImmediate(() => void isolate.dispose());
    else if (tool.isolation === "tool") this.#pool.keep(warmKey(call), isolate);
    else this.#pool.spares.adopt(tool, isolate, prewarm?.like);
  }
}

/** Python's interpreter has ended in it. Who makes that up loses an isolate of its own. */
const hasCrashed = ({ outcome, text }: GuestEnd): boolean =>
  outcome === "thrown" && text.includes(`"code":"${INTERPRETER_CRASHED}"`);

/** Of an `ended`, see protocol.ts. */
function partsOf({ text, bytes, content }: GuestEnd): (string | Uint8Array)[] {
  if (bytes === undefined && content === undefined) return [text];
  const parts = [text, bytes?.header ?? "", bytes?.data ?? ""];
  return content === undefined
    ? parts
    : [...parts, content.text, content.bytes?.header ?? "", content.bytes?.data ?? ""];
}

/** An isolate is kept for one tenant's calls of one tool as it was described: another version is another tool. */
function warmKey(call: AssignedCall): string {
  return `${call.tool.toolId} ${call.tenantId}`;
}
