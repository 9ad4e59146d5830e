// Runs the calls that control planes send to this executor. It accepts messages only from its own subject, with the
// secret of this process, and keeps nothing of a call after its end.
import { randomBytes } from "node:crypto";
import type { FleetConnection, FleetMessage } from "../host/fleet/nats-connection.ts";
import { ObjectReader, type ObjectSource } from "../host/fleet/objects/object-reader.ts";
import { OrderedTasks } from "../host/fleet/ordered-tasks.ts";
import type { PartRequest } from "../host/fleet/protocol/control-messages.ts";
import { type ControlMessage, ControlMessageSchema, type RunMessage } from "../host/fleet/protocol/control-messages.ts";
import type { Announcement, RejectionReason } from "../host/fleet/protocol/executor-messages.ts";
import { type Languages, NESTED_PER_SLOT } from "../host/fleet/protocol/message-fields.ts";
import { aliveSubject, controlSubject, executorSubject } from "../host/fleet/protocol/subjects.ts";
import { decodeFrame, encodeFrame, FLEET_PROTOCOL_VERSION } from "../host/fleet/protocol/wire.ts";
import type { WorkerPool } from "../host/workers/worker-pool.ts";
import { CallSender } from "./calls/call-sender.ts";
import { HostedCall } from "./calls/hosted-call.ts";
import { type JobParts, ToolProfiles, toJob } from "./calls/hosted-job.ts";
import { type HostedSession, HostedSessions } from "./calls/hosted-sessions.ts";
import { WaitingCalls } from "./calls/waiting-calls.ts";
import type { CallCode, CodeStore } from "./code/call-code.ts";

export interface ExecutorServiceOptions {
  readonly id: string;
  readonly pool: string;
  readonly slots: number;
  readonly version: string;
  readonly connection: FleetConnection;
  readonly code: CodeStore;
  readonly workers: WorkerPool;
  /** Whether the operating system limits the memory of a process. */
  readonly canLimitMemory: boolean;
  /** Called when a control plane has requested that this executor drains. It accepts no more calls from then on. */
  readonly onDrainRequested: () => void;
  /** Called once when another process with this id is connected. This one gets no calls. */
  readonly onIdInUse: () => void;
  readonly onError: (error: unknown) => void;
}

/** Time in ms between announcements. */
const TICK_MS = 500;
/** Time in ms after which the calls and sessions of a control plane that has not named them are ended. */
const ORPHAN_MS = 15_000;

interface OpenOptions {
  readonly isRecorded: boolean;
  /** Default: it is rejected. */
  readonly takesSlot?: boolean;
  readonly session?: HostedSession | undefined;
}

export class ExecutorService implements AsyncDisposable {
  readonly #options: ExecutorServiceOptions;
  /** Secret of this process; see AnnouncementSchema. */
  readonly #key: string = randomBytes(16).toString("base64url");
  readonly #since = Date.now();
  readonly #profiles: ToolProfiles;
  /** Calls of which not every message has been published, by fencing token. */
  readonly #calls = new Map<string, HostedCall>();
  /** When each control plane with calls has sent its last message, by performance.now(). */
  readonly #controls = new Map<string, number>();
  readonly #sessions: HostedSessions;
  readonly #waiting = new WaitingCalls();
  readonly #inbox: OrderedTasks;
  readonly #sender: CallSender;
  readonly #reader: ObjectReader;
  readonly #unsubscribe: () => void;
  readonly #timer: NodeJS.Timeout;
  #running = 0;
  #nested = 0;
  #isDraining = false;
  #isIdInUse = false;
  #isClosed = false;
  #onIdle: (() => void) | undefined;

  constructor(options: ExecutorServiceOptions) {
    this.#options = options;
    this.#sessions = new HostedSessions({
      endSession: (placement) => options.workers.endSession(placement),
      onEnded: (control, sessions) => this.#publish(control, encodeFrame({ type: "sessions-ended", sessions })),
    });
    this.#profiles = new ToolProfiles((profile) => options.workers.release([profile], undefined));
    this.#inbox = new OrderedTasks((token, error) => this.#onBroken(token, error));
    this.#sender = new CallSender({
      connection: options.connection,
      publish: (control, bytes) => this.#publish(control, bytes),
      onBroken: (token, error) => this.#onBroken(token, error),
    });
    this.#reader = new ObjectReader(options.connection);
    const subject = executorSubject(options.id);
    this.#unsubscribe = options.connection.subscribe(subject, (message) => this.#onMessage(message));
    this.#announce();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  /** Languages of the tools that it runs. */
  get languages(): readonly ("javascript" | "python")[] {
    return this.#options.code.runtime === undefined ? ["javascript"] : ["javascript", "python"];
  }

  /** Calls that run, without nested ones. */
  get busy(): number {
    return this.#running;
  }

  /** Sessions whose isolates it has. */
  get sessions(): number {
    return this.#sessions.size;
  }

  #announce(): void {
    const { id, pool, slots, version, connection, code } = this.#options;
    const announcement: Announcement = {
      type: "alive",
      protocol: FLEET_PROTOCOL_VERSION,
      key: this.#key,
      version,
      since: this.#since,
      slots,
      busy: this.#running,
      isDraining: this.#isDraining,
    };
    const languages: Languages = {
      python: code.runtime,
      isPythonReady: code.isPythonReady,
      hasSessions: true,
      countsMessages: true,
    };
    connection.publish(aliveSubject({ id, pool }), encodeFrame(announcement, [JSON.stringify(languages)]));
  }

  #tick(): void {
    const byControl = Map.groupBy(this.#calls.values(), ({ control }) => control);
    // Without NATS they would wait, and after a long outage thousands of them would arrive at once.
    if (this.#options.connection.outageMs === 0) {
      this.#announce();
      for (const [control, calls] of byControl) this.#reportRunning(control, calls);
    }
    const orphanedBefore = performance.now() - ORPHAN_MS;
    for (const [control, seenAt] of this.#controls) {
      if (seenAt > orphanedBefore && byControl.has(control)) continue;
      this.#controls.delete(control);
      for (const call of byControl.get(control) ?? []) abandon(call);
    }
    this.#sessions.endOrphans(ORPHAN_MS);
  }

  /** Tells a control plane which of its calls run. It then knows which have ended, also if it did not get their last messages. */
  #reportRunning(control: string, calls: readonly HostedCall[]): void {
    this.#publish(control, encodeFrame({ type: "running", calls: calls.map(({ token, sent }) => [token, sent]) }));
  }

  #publish(control: string, bytes: Uint8Array): void {
    this.#options.connection.publish(controlSubject(control, this.#options.id), bytes);
  }

  #onMessage({ data, hasHeaders }: FleetMessage): void {
    // Control planes send no headers. A stored message that NATS delivers on the request of a client has some.
    if (hasHeaders || this.#isClosed) return;
    try {
      const frame = decodeFrame(data);
      const message = ControlMessageSchema.parse(frame.message);
      // A message for an earlier process of this executor, or not from a control plane.
      if (message.key !== this.#key) return;
      if (!("token" in message)) this.#receiveGeneral(message);
      // Messages that wait for an object in the order of their call would wait for these for ever.
      else if (message.type === "fetch") this.#sendPart(message);
      else if (message.type === "part") this.#reader.receive(message, frame.parts[0]);
      else if (message.type === "received") this.#calls.get(message.token)?.offers.remove(message.name);
      else this.#inbox.run(message.token, () => this.#receive(message, frame.parts));
    } catch (thrown) {
      this.#options.onError(thrown);
    }
  }

  #receiveGeneral(message: Exclude<ControlMessage, { readonly token: string }>): void {
    if (message.type === "end-owner") this.#options.workers.endOwner(message.owner, message.isShared);
    else if (message.type === "delete-tenant") {
      this.#sessions.endTenant(message.tenantId);
      this.#options.code.deleteTenant(message.tenantId).catch(this.#options.onError);
    } else if (message.type === "hold-sessions") this.#sessions.hold(message.control, message.sessions);
    else if (message.type === "end-session") this.#sessions.end(message.session);
    else if (message.type === "hold") {
      this.#hold(message);
    } else if (message.type === "prepare-python")
      void this.#options.code.preparePython(message.runtime).then(() => !this.#isClosed && this.#announce());
    else if (message.type === "id-in-use") {
      if (this.#isIdInUse) return;
      this.#isIdInUse = true;
      this.#options.onIdInUse();
    } else {
      this.#beginDrain();
      this.#options.onDrainRequested();
    }
  }

  #hold({ control, tokens, sent }: Extract<ControlMessage, { readonly type: "hold" }>): void {
    this.#controls.set(control, performance.now());
    const held = new Set(tokens);
    const own = [...this.#calls.values()].filter((call) => call.control === control);
    for (const call of own) if (!held.has(call.token)) abandon(call);
    // The last message of a call that has ended can be lost, and without calls there is no regular report.
    if (tokens.some((token) => !this.#calls.has(token))) this.#reportRunning(control, own);
    // After the messages that wait for an object.
    for (const [index, n = 0] of (sent ?? []).entries()) {
      const token = tokens[index] ?? "";
      this.#inbox.run(token, () => checkReceived(this.#calls.get(token), n));
    }
  }

  #sendPart(request: PartRequest): void {
    const { token, name, from } = request;
    const call = this.#calls.get(token);
    // A call that is over offers nothing, and its control plane does not read it.
    if (call === undefined) return;
    const part = call.offers.partOf(request);
    this.#publish(call.control, encodeFrame({ type: "part", token, name, from }, part === undefined ? [] : [part]));
  }

  #sourceOf({ control, token }: { readonly control: string; readonly token: string }): ObjectSource {
    const request: ObjectSource["request"] = (message) => this.#publish(control, encodeFrame(message));
    return { token, request, isWanted: () => !this.#isClosed };
  }

  /** Reads a message that was too large to be sent at once. */
  async #receiveObject(message: Extract<ControlMessage, { readonly type: "object" }>): Promise<void> {
    const { control, token, name } = message;
    const bytes = await this.#reader.read(message, this.#sourceOf(message));
    this.#publish(control, encodeFrame({ type: "received", token, name }));
    const frame = decodeFrame(bytes);
    const inner = ControlMessageSchema.parse(frame.message);
    if (!("token" in inner) || inner.type === "object" || inner.token !== token || inner.key !== this.#key)
      throw new Error("An object holds another message than was announced");
    await this.#receive(inner, frame.parts);
  }

  #receive(
    message: Extract<ControlMessage, { readonly token: string }>,
    parts: readonly Buffer[],
  ): Promise<void> | undefined {
    if (message.type === "object") return this.#receiveObject(message);
    if (message.type === "run") {
      this.#run(message, parts);
      return undefined;
    }
    const call = this.#calls.get(message.token);
    if (call !== undefined && "n" in message && message.n !== undefined) {
      checkReceived(call, message.n - 1);
      call.received = message.n;
    }
    switch (message.type) {
      case "answer":
        call?.answer(message.requestId, parts[0]?.toString() ?? "", message.latencyMs);
        break;
      case "cancel":
        call?.cancel();
        break;
      case "credit":
        call?.credit(message.chunks);
        break;
      case "rest":
        call?.setPaused(message.isResting);
        break;
      case "watch-idle":
        call?.watchIdle(message.isWatched);
        break;
    }
    return undefined;
  }

  /** Returns why a call is not accepted. */
  #rejectionOf(run: RunMessage): RejectionReason | undefined {
    const { isNested, dataBytes } = run;
    const { slots, canLimitMemory, code } = this.#options;
    if ((dataBytes !== undefined && !canLimitMemory) || !code.canRun(run)) return "failed";
    // The caller of a nested call runs, and must be able to finish.
    if (isNested) return this.#nested < NESTED_PER_SLOT * slots ? undefined : "full";
    if (this.#isDraining) return "draining";
    return this.#running < slots ? undefined : "full";
  }

  #run(message: RunMessage, parts: readonly Buffer[]): void {
    if (this.#calls.has(message.token)) return;
    this.#controls.set(message.control, performance.now());
    let jobParts: JobParts;
    try {
      jobParts = this.#profiles.readParts(parts, message.session?.once === true);
    } catch (thrown) {
      this.#options.onError(thrown);
      this.#open(message, { isRecorded: false }).reject("failed");
      return;
    }
    const isRecorded = jobParts.profile.isRecorded === true;
    const entered = this.#enter(message);
    if (typeof entered === "string") {
      this.#open(message, { isRecorded }).reject(entered);
      return;
    }
    const call = this.#open(message, { isRecorded, takesSlot: true, session: entered });
    const { code, workers } = this.#options;
    const { coarseTime } = jobParts.profile;
    const start = (found: CallCode): void => call.start(() => workers.run(toJob(message, jobParts, found, call)));
    const known = code.known(message, coarseTime);
    if (known !== undefined) {
      start(known);
      return;
    }
    const source = this.#sourceOf(message);
    const accept = (): void => call.accept();
    // Later messages about the call must not wait for its code, for example a cancellation.
    code
      .load(message, coarseTime, (ref) => this.#reader.read(ref, source), accept)
      .then(start, () => call.reject("no-bundle"));
  }

  /** Returns the session of a call that is accepted, if it has one, or why the call is not accepted. */
  #enter(run: RunMessage): HostedSession | undefined | RejectionReason {
    return this.#rejectionOf(run) ?? (run.session === undefined ? undefined : this.#sessions.enter(run));
  }

  #open(run: RunMessage, { isRecorded, takesSlot = false, session }: OpenOptions): HostedCall {
    const call = new HostedCall(
      {
        run,
        session,
        send: (from, report, parts) => this.#sender.send(from, report, parts),
        onWaiting: (waiting) => this.#waiting.add(waiting),
        onEnd: (ended) => this.#onCallEnd(ended, takesSlot),
      },
      isRecorded,
    );
    this.#calls.set(call.token, call);
    if (takesSlot) this.#count(call, 1);
    return call;
  }

  #count({ isNested }: HostedCall, change: 1 | -1): void {
    if (isNested) this.#nested += change;
    else this.#running += change;
  }

  #onCallEnd(call: HostedCall, tookSlot: boolean): void {
    if (tookSlot) this.#count(call, -1);
    if (call.session !== undefined) this.#sessions.leave(call.session, call.keepsIsolate);
    this.#waiting.delete(call);
    // It counts as open until its last message is published, so that the control plane does not think that it is lost.
    this.#sender.afterwards(call, () => {
      this.#calls.delete(call.token);
      if (this.#calls.size === 0) this.#onIdle?.();
    });
  }

  /** A message of the call could not be read or sent: the call ends. */
  #onBroken(token: string, error: unknown): void {
    this.#options.onError(error);
    const call = this.#calls.get(token);
    if (call !== undefined) this.#sender.break(call);
  }

  #beginDrain(): void {
    this.#isDraining = true;
    this.#announce();
  }

  /**
   * Accepts no more calls, and waits until the control planes have everything of those that run. Resolves with the number
   * of the calls of which something is missing after `withinMs`.
   */
  async drain(withinMs: number): Promise<number> {
    this.#beginDrain();
    if (this.#calls.size > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onIdle = resolve;
      const timer = setTimeout(resolve, withinMs);
      await promise;
      clearTimeout(timer);
    }
    return this.#calls.size;
  }

  /** Ends every call as lost, and disconnects. Disposing twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    clearInterval(this.#timer);
    this.#unsubscribe();
    await this.#options.workers[Symbol.asyncDispose]();
    this.#waiting[Symbol.dispose]();
    this.#isClosed = true;
    for (const { offers } of this.#calls.values()) offers.close();
    await this.#options.connection[Symbol.asyncDispose]();
  }
}

/** @throws {Error} if a message about the call is missing, such as an answer for which it would wait for ever */
function checkReceived(call: HostedCall | undefined, n: number): undefined {
  if (call !== undefined && call.received !== n) throw new Error(`Message ${call.received + 1} about a call was lost`);
}

/** Ends a call that its control plane does not know any longer: nothing of it will be read. */
function abandon(call: HostedCall): void {
  call.cancel();
  call.offers.close();
}
