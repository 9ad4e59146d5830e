// One worker process, seen from the host: frames out, frames in, every one of them checked. It counts as hostile: whatever does not
// fit ends it, and all it can ever do is answer the calls that it was given.
import type { ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { ToolError } from "../../sandbox/errors.ts";
import { type Frame, FrameReader, FrameWriter } from "../../sandbox/frames.ts";
import type { Limits } from "../../sandbox/limits.ts";
import {
  type EndedMessage,
  type LogLevel,
  MAX_MESSAGE_BYTES,
  PROTOCOL_VERSION,
  type ToolMessage,
  type WorkerMessage,
  WorkerMessageSchema,
} from "../../sandbox/protocol.ts";
import { launchWorker } from "./launch.ts";

/** How calls of a tool are run: told to a worker once, known there by the object's identity. */
export type ToolProfile = Omit<ToolMessage, "type" | "toolId">;

/** What the pool asks of a worker. */
export type CallOrder =
  | { readonly type: "call"; readonly tool: ToolProfile; readonly callId: string; readonly tenantId: string }
  | { readonly type: "learn"; readonly sha256: string; readonly limits: Limits };

/** A bundle to be sent once to each worker that runs it. */
export interface SentBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: Uint8Array;
}

/** Hears what becomes of one call. After `onEnded` or `onLost` nothing more comes. */
export interface CallListener {
  onLog(level: LogLevel, time: number, text: string): void;
  onProgress(text: string): void;
  /** `answer` reaches this very run of the call, and nothing once it is over. */
  onCapability(name: string, text: string, answer: (envelope: string) => void): void;
  /** The process is up and has the call: what it waited for was not the tool's doing. */
  onPlaced(): void;
  onEnded(message: EndedMessage, parts: readonly Buffer[]): void;
  /** The worker is gone. `begun`: a line of the tool may have run for this call. `cause`: no process could be had at all. */
  onLost(begun: boolean, cause?: ToolError): void;
}

export interface WorkerSources {
  readonly workerPath: string;
  readonly preludeSource: string;
  readonly urlChunkSource: string;
}

/** From `ended` or `cancel` to `released`; then the isolate counts as one that only SIGKILL stops. */
const RELEASE_MS = 200;
/** A worker that does not answer by then will not. */
const START_MS = 10_000;
/** From a worker's exit to the end of what it has said; a process of its own may hold the other end open, but none should. */
const DRAIN_MS = 100;
/** The last of what a worker wrote to stderr, for the operator. */
const STDERR_UNITS = 4_096;
/** A well-behaved worker sends no more than this many progress reports of one call. */
const PROGRESS_REPORTS = 10_000;
/** What a worker has not read by then it does not mean to read: it makes the host hold it. */
const MAX_UNREAD_BYTES = 128 * 1024 * 1024;
/** One line of a log may pass what is left of `logBytes` by this much. */
const LOG_LINE_BYTES = 128 * 1024;

/** Of an outcome that is no output: a well-behaved worker sends 256 Ki units at most. 79 MB of it held the host up for 1.6 s. */
const MAX_END_BYTES = 1024 * 1024;

interface OpenCall {
  readonly listener: CallListener;
  readonly limits: Limits;
  /** A warm isolate may take it up without a word; a new one is announced first. */
  readonly mayBeWarm: boolean;
  /** The operating system has taken it for the process. */
  isSent: boolean;
  state: "sent" | "preparing" | "started" | "ended";
  logLines: number;
  logBytes: number;
  progressReports: number;
  requests: number;
  cancelled: boolean;
  releaseTimer: NodeJS.Timeout | undefined;
}

export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #socket: Socket;
  readonly #writer: FrameWriter;
  readonly #reader = new FrameReader();
  readonly #calls = new Map<number, OpenCall>();
  readonly #bundles = new Set<string>();
  readonly #tools = new Map<ToolProfile, number>();
  readonly #onChange: (worker: WorkerProcess) => void;
  readonly #startTimer: NodeJS.Timeout;
  #lastSeq = 0;
  #drainTimer: NodeJS.Timeout | undefined;
  #held = true;
  #lettingGo = false;
  #ready = false;
  #dead = false;
  #stderr = "";
  /** Who may use it; undefined for a spare that nobody has used. */
  owner: string | undefined;
  /** It runs one job and is ended. */
  singleUse = false;
  /** It takes no more calls: another owner waits for its place. */
  draining = false;
  /** `performance.now()` when it last ran a call. */
  lastUsed: number = performance.now();

  /**
   * @param onChange called when a call is released, when the worker is ready, and when it has died
   * @throws {ToolError} OVERLOADED when the operating system gives no process or no descriptors for one
   */
  constructor(sources: WorkerSources, onChange: (worker: WorkerProcess) => void) {
    this.#onChange = onChange;
    this.#child = launchWorker(sources.workerPath);
    // First of all: a spawn that fails says so by this event, and without a listener it would end the host.
    this.#child.on("error", () => this.kill());
    const socket: unknown = this.#child.stdio?.[3];
    if (!(socket instanceof Socket)) {
      this.#dead = true;
      throw new ToolError("OVERLOADED", "A sandbox process could not be started: the machine has no room for one");
    }
    this.#socket = socket;
    this.#writer = new FrameWriter(this.#socket);
    this.#startTimer = setTimeout(() => this.kill(), START_MS);
    this.#listen();
    this.#writer.write({ type: "init", protocolVersion: PROTOCOL_VERSION }, [
      sources.preludeSource,
      sources.urlChunkSource,
    ]);
    this.#hold();
  }

  #listen(): void {
    // What it said before it died is still to be read: the socket's close comes after that.
    this.#child.on("exit", () => {
      this.#drainTimer = setTimeout(() => this.#die(false), DRAIN_MS);
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_UNITS);
    });
    this.#socket.on("error", ({ syscall }: NodeJS.ErrnoException) => {
      this.#child.kill("SIGKILL");
      // A read fails only when nothing is left to be read; a write may fail before that.
      this.#die(syscall === "read");
    });
    this.#socket.on("close", () => {
      this.#child.kill("SIGKILL");
      this.#die(true);
    });
    this.#socket.on("data", (chunk: Buffer) => {
      try {
        for (const frame of this.#reader.push(chunk)) if (!this.#dead) this.#receive(frame);
      } catch {
        // Not our protocol: nothing this process says can be used any more.
        this.kill();
      }
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  get isReady(): boolean {
    return this.#ready;
  }
  get isDead(): boolean {
    return this.#dead;
  }
  /** Calls in it, those included that have ended but may still run. */
  get load(): number {
    return this.#calls.size;
  }
  /** A call in it has been ended and has not stopped yet: it may have to be killed, with all that is in it. */
  get isReleasing(): boolean {
    for (const open of this.#calls.values()) if (open.releaseTimer !== undefined) return true;
    return false;
  }
  /** Calls it has ever been given. */
  get served(): number {
    return this.#lastSeq;
  }
  /** What it last wrote to stderr: for the operator, never for a caller. */
  get diagnostics(): string {
    return this.#stderr;
  }

  /** Sends a call, and its bundle if this worker has not seen it. Returns the call's number here. */
  start(order: CallOrder, bundle: SentBundle, input: string, listener: CallListener): number {
    this.#lastSeq += 1;
    const seq = this.#lastSeq;
    this.lastUsed = performance.now();
    if (!this.#bundles.has(bundle.sha256)) {
      this.#bundles.add(bundle.sha256);
      this.#writer.write({ type: "bundle", sha256: bundle.sha256 }, [bundle.code, bundle.codeCache]);
    }
    const limits = order.type === "call" ? order.tool.limits : order.limits;
    const open: OpenCall = {
      listener,
      limits,
      mayBeWarm: order.type === "call" && order.tool.isolation === "tool",
      isSent: false,
      state: "sent",
      logLines: 0,
      logBytes: 0,
      progressReports: 0,
      requests: 0,
      cancelled: false,
      releaseTimer: undefined,
    };
    this.#calls.set(seq, open);
    this.#hold();
    const onSent = (): void => {
      open.isSent = true;
    };
    if (order.type === "learn") this.#writer.write({ ...order, seq }, [], onSent);
    else {
      const { type, tool, callId, tenantId } = order;
      this.#writer.write({ type, seq, toolId: this.#toolIdOf(tool), callId, tenantId }, [input], onSent);
    }
    if (this.#ready) listener.onPlaced();
    return seq;
  }

  #toolIdOf(tool: ToolProfile): number {
    const known = this.#tools.get(tool);
    if (known !== undefined) return known;
    const toolId = this.#tools.size + 1;
    this.#tools.set(tool, toolId);
    this.#writer.write({ type: "tool", toolId, ...tool });
    return toolId;
  }

  /** Ends a call's isolate. If it has not really stopped soon, the process is killed. */
  cancel(seq: number): void {
    const open = this.#calls.get(seq);
    if (open === undefined || open.state === "ended") return;
    this.#writer.write({ type: "cancel", seq });
    open.cancelled = true;
    // One that is not up yet cannot answer: until then START_MS is its clock.
    if (this.#ready) this.#expectRelease(open);
  }

  /** Hands a capability's answer to a call; one that is over is not told. */
  #deliver(seq: number, requestId: number, envelope: string): void {
    const open = this.#calls.get(seq);
    if (open === undefined || open.state === "ended") return;
    this.#writer.write({ type: "capability-result", seq, requestId }, [envelope]);
    if (this.#writer.pendingBytes > MAX_UNREAD_BYTES) this.kill();
  }

  /** SIGKILL, always: process.exit() waits for busy isolates. Calls in it are lost. Twice is a no-op. */
  kill(): void {
    this.#child.kill("SIGKILL");
    this.#die(false);
  }

  /** @param isHeardOut whether all that it has ever said has been read */
  #die(isHeardOut: boolean): void {
    clearTimeout(this.#drainTimer);
    if (this.#dead) return;
    this.#dead = true;
    clearTimeout(this.#startTimer);
    this.#socket.destroy();
    for (const open of this.#calls.values()) {
      clearTimeout(open.releaseTimer);
      if (open.state !== "ended") open.listener.onLost(this.#hasBegun(open, isHeardOut));
    }
    this.#calls.clear();
    this.#onChange(this);
  }

  /** Whether a line of the tool may have run for this call: in doubt it has. */
  #hasBegun({ state, isSent, mayBeWarm }: OpenCall, isHeardOut: boolean): boolean {
    if (!this.#ready || !isSent || state === "preparing") return false;
    return state === "started" || mayBeWarm || !isHeardOut;
  }

  #expectRelease(open: OpenCall): void {
    open.releaseTimer ??= setTimeout(() => this.kill(), RELEASE_MS);
  }

  #receive([message, ...parts]: Frame): void {
    if (message.length > MAX_MESSAGE_BYTES) throw new Error("A message of the worker is too long");
    const parsed = WorkerMessageSchema.parse(JSON.parse(message.toString()));
    if (parsed.type === "ready") {
      if (this.#ready) throw new Error("The worker was ready already");
      this.#ready = true;
      clearTimeout(this.#startTimer);
      this.#hold();
      for (const open of this.#calls.values()) {
        if (open.cancelled) this.#expectRelease(open);
        else open.listener.onPlaced();
      }
      this.#onChange(this);
      return;
    }
    const open = this.#calls.get(parsed.seq);
    if (open === undefined || !this.#ready) throw new Error("The worker named a call that it was not given");
    this.#advance(parsed, open, parts);
  }

  /** One message of one call, in an order that makes sense or not at all. */
  #advance(message: Exclude<WorkerMessage, { type: "ready" }>, open: OpenCall, parts: readonly Buffer[]): void {
    const { listener, limits } = open;
    if ((message.type === "released") !== (open.state === "ended"))
      throw new Error("The worker's messages are out of order");
    switch (message.type) {
      case "preparing":
        if (open.state !== "sent") throw new Error("The worker prepared a call twice");
        open.state = "preparing";
        break;
      case "started":
        if (open.state !== "preparing") throw new Error("The worker started a call twice");
        open.state = "started";
        break;
      case "log":
        open.logLines += 1;
        open.logBytes += parts[0]?.length ?? 0;
        bound(open.logLines, limits.logLines);
        bound(open.logBytes, limits.logBytes * 4 + LOG_LINE_BYTES);
        listener.onLog(message.level, message.time, text(parts, limits.logBytes * 4));
        break;
      case "progress":
        open.progressReports += 1;
        bound(open.progressReports, PROGRESS_REPORTS);
        listener.onProgress(text(parts, 16_384));
        break;
      case "capability":
        open.requests += 1;
        bound(open.requests, limits.hostCalls + limits.logLines);
        listener.onCapability(message.name, text(parts, limits.inputBytes * 4), (envelope) =>
          this.#deliver(message.seq, message.requestId, envelope),
        );
        break;
      case "ended":
        if (message.outcome !== "output") bound(parts[0]?.length ?? 0, MAX_END_BYTES);
        open.state = "ended";
        if (!message.released) this.#expectRelease(open);
        listener.onEnded(message, parts);
        if (message.released) this.#release(message.seq, open);
        break;
      case "released":
        this.#release(message.seq, open);
        break;
    }
  }

  #release(seq: number, open: OpenCall): void {
    clearTimeout(open.releaseTimer);
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
    for (const handle of [this.#child, this.#socket, this.#child.stderr as Socket | null]) {
      if (held) handle?.ref();
      else handle?.unref();
    }
  }
}

function bound(count: number, most: number): void {
  if (count > most) throw new Error("The worker sent more than its call may cause");
}

function text(parts: readonly Buffer[], maxBytes: number): string {
  const [part] = parts;
  if (part === undefined || part.length > maxBytes)
    throw new Error("A part of the worker's message is missing or too long");
  return part.toString();
}
