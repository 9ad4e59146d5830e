// An executor as a control plane sees it: what it announced, the calls that it runs for this control plane, and the
// messages to and from it.
import { setBounded } from "../../util/bounded-map.ts";
import type { SessionLoss } from "../../workers/pool-job.ts";
import { LossEvent } from "../../workers/process/call-events.ts";
import type { FleetConnection } from "../nats-connection.ts";
import { describeObject, type ObjectOffers } from "../objects/object-offers.ts";
import type { ControlMessage, PartRequest } from "../protocol/control-messages.ts";
import { carriedBytes, MAX_DIRECT_BYTES, MAX_FLEET_SESSIONS, MAX_PART_BYTES } from "../protocol/message-fields.ts";
import { controlSubject, executorSubject } from "../protocol/subjects.ts";
import { encodeFrame } from "../protocol/wire.ts";
import type { Announced } from "./announcement.ts";
import type { ExecutorInfo } from "./fleet-state.ts";
import { PartSender } from "./part-sender.ts";
import { type Candidate, hashText } from "./placement.ts";

/** A message, without the key that each message to an executor has. */
type Unkeyed<Message> = Message extends { readonly key: string } ? Omit<Message, "key"> : never;
export type OutgoingFleetMessage = Unkeyed<ControlMessage>;

/** Messages about a call that the executor counts. */
const COUNTED = new Set<OutgoingFleetMessage["type"]>(["answer", "cancel", "credit", "rest", "watch-idle"]);
/** Bundles of one executor that are counted. */
const MAX_BUNDLES = 4_096;
/** Time in ms for which a full executor gets no calls, unless it announces itself earlier. */
const FULL_MS = 250;
/** Time in ms after which a request to prepare Python is repeated: it can be lost. Preparing twice is a no-op. */
const PREPARE_MS = 5_000;

/** Time in ms for which an executor that cannot start processes is avoided at first, and at most. */
const FAILING_MS = 5_000;
const MAX_FAILING_MS = 60_000;

export interface RemoteExecutorOptions {
  readonly id: string;
  /** Id of this control plane. */
  readonly control: string;
  readonly connection: FleetConnection;
  readonly announcement: Announced;
  /** Receives the token of a call whose message is too large. */
  readonly onUnsent: (token: string) => void;
}

/** An attempt to run a call, by its fencing token. */
interface TrackedAttempt {
  readonly token: string;
  /** Number of the last message about it to the executor, without those about objects. */
  sentMessages: number;
  /** What the executor may read: its bundle, and messages that are too large. */
  readonly offers: ObjectOffers;
}

/** What a call needs of its executor, in addition to a free slot. */
export interface CallNeeds {
  /** Hash of the Python runtime; undefined for calls in JavaScript. */
  readonly python?: string | undefined;
  /** The isolate of a session is to be kept. */
  readonly session?: boolean;
}

/** A session whose isolate the executor has. */
interface TrackedSession {
  readonly token: string;
  /** The isolate is lost. */
  lose(reason: SessionLoss): void;
  /** The isolate will be lost: the session ends when its running call has ended. */
  retire(reason: SessionLoss): void;
  /** The executor says that it does not have the isolate. */
  reportEnded(reason: SessionLoss): void;
}

export class RemoteExecutor<Attempt extends TrackedAttempt = TrackedAttempt> implements Candidate {
  readonly id: string;
  readonly hash: number;
  readonly #options: RemoteExecutorOptions;
  readonly attempts = new Map<string, Attempt>();
  /** Sessions of this control plane, by their names. */
  readonly sessions = new Map<string, TrackedSession>();
  /** Hashes of the bundles of its calls. */
  readonly #bundles = new Map<string, true>();
  readonly #parts: PartSender;
  /** Ends of its worker processes, which it does not tell apart: a circuit counts them once for calls that ran at the same time. */
  readonly processEvent = new LossEvent("A worker process of an executor ended before its calls did");
  announcement: Announced;
  /** By performance.now(). */
  seenAt: number = performance.now();
  /** No call is sent to it before this time: it was full, or NATS reported that it is not connected. */
  #pausedUntil = 0;
  /** Until when it is avoided, by performance.now(), and for how long that is, in ms. */
  #failingUntil = Number.NEGATIVE_INFINITY;
  #failingMs = FAILING_MS;
  /** Calls that were sent since the last announcement, minus those that ended. */
  #sinceAnnounced = 0;
  #roots = 0;
  nested = 0;
  /** When it was last requested to prepare Python, by performance.now(). */
  #preparedAt = Number.NEGATIVE_INFINITY;
  /** Called when it announces that it drains, or is not followed any longer. */
  readonly #onDraining = new Set<() => void>();

  constructor(options: RemoteExecutorOptions) {
    this.id = options.id;
    this.hash = hashText(options.id);
    this.#options = options;
    this.announcement = options.announcement;
    this.#parts = new PartSender(options.connection);
  }

  get slots(): number {
    return this.announcement.slots;
  }

  get load(): number {
    return Math.max(this.#roots, this.announcement.busy + this.#sinceAnnounced);
  }

  /** Whether it is connected and takes calls, although it may be full now. */
  isConnected(now: number, silenceMs: number, isNested: boolean): boolean {
    // An executor that stops still takes nested calls, so that their callers can finish.
    return (isNested || !this.announcement.isDraining) && now - this.seenAt < silenceMs;
  }

  /** Whether it may get a call now. */
  canTake(now: number, silenceMs: number, isNested: boolean): boolean {
    return now >= this.#pausedUntil && this.isConnected(now, silenceMs, isNested);
  }

  /** Whether it could not start a process for a call a short time ago. */
  isFailing(now: number): boolean {
    return now < this.#failingUntil;
  }

  /** Records that it could not start a process for a call. Each time soon after the last one, it is avoided for twice as long. */
  recordFailure(): void {
    const now = performance.now();
    // Calls that fail together count once.
    if (this.isFailing(now)) return;
    this.#failingMs =
      now - this.#failingUntil > MAX_FAILING_MS ? FAILING_MS : Math.min(MAX_FAILING_MS, 2 * this.#failingMs);
    this.#failingUntil = now + this.#failingMs;
  }

  /** Whether it can run calls with these needs. */
  has({ python, session = false }: CallNeeds): boolean {
    const { announcement } = this;
    return (python === undefined || announcement.python === python) && (!session || announcement.hasSessions);
  }

  /** Whether it can start a call with these needs now. */
  isReadyFor(needs: CallNeeds): boolean {
    return this.has(needs) && (needs.python === undefined || this.announcement.isPythonReady);
  }

  /** Whether it may get another session. */
  get hasRoomForSession(): boolean {
    return this.sessions.size < MAX_FLEET_SESSIONS;
  }

  /** Requests that it prepares this Python runtime, and repeats that from time to time until it is ready. */
  preparePython(runtime: string): void {
    const now = performance.now();
    if (!this.has({ python: runtime }) || this.announcement.isPythonReady || now - this.#preparedAt < PREPARE_MS)
      return;
    this.#preparedAt = now;
    this.send({ type: "prepare-python", runtime });
  }

  /** Records an announcement of the same process. */
  announced(announcement: Announced): void {
    this.announcement = announcement;
    this.seenAt = performance.now();
    this.#sinceAnnounced = 0;
    this.#pausedUntil = Math.min(this.#pausedUntil, this.seenAt);
    if (!announcement.isDraining) return;
    this.settleDrains();
    for (const session of [...this.sessions.values()]) session.retire("executor-stops");
  }

  /** Ends the wait of those who have requested that it drains. */
  settleDrains(): void {
    for (const settle of this.#onDraining) settle();
  }

  get info(): ExecutorInfo {
    const { pool, version, since, slots, busy, isDraining, python } = this.announcement;
    const seenAt = Date.now() - Math.round(performance.now() - this.seenAt);
    // The directory leaves out those that are silent.
    const free = this.canTake(performance.now(), Number.POSITIVE_INFINITY, false) ? Math.max(0, slots - this.load) : 0;
    const languages: ExecutorInfo["languages"] = python === undefined ? ["javascript"] : ["javascript", "python"];
    const { id } = this;
    return { id, pool, version, languages, since, slots, busy, free, isDraining, seenAt, bundles: this.#bundles.size };
  }

  /** Requests that the executor finishes its calls and ends. Resolves with whether it has confirmed that within `withinMs`. */
  async drain(withinMs: number): Promise<boolean> {
    if (this.announcement.isDraining) return true;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, withinMs);
    this.#onDraining.add(resolve);
    this.send({ type: "drain" });
    await promise;
    clearTimeout(timer);
    this.#onDraining.delete(resolve);
    return this.announcement.isDraining;
  }

  /** Sends it no calls for a while. */
  pause(ms: number = FULL_MS): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + ms);
  }

  add(attempt: Attempt, isNested: boolean): void {
    this.attempts.set(attempt.token, attempt);
    if (isNested) this.nested += 1;
    else [this.#roots, this.#sinceAnnounced] = [this.#roots + 1, this.#sinceAnnounced + 1];
  }

  remove(attempt: Attempt, isNested: boolean): void {
    if (!this.attempts.delete(attempt.token)) return;
    attempt.offers.close();
    if (isNested) this.nested -= 1;
    else [this.#roots, this.#sinceAnnounced] = [this.#roots - 1, this.#sinceAnnounced - 1];
  }

  /** Sends a message. The executor processes those with the same token in order, and notices if one of them is missing. */
  send(message: OutgoingFleetMessage, parts: readonly (string | Uint8Array)[] = []): void {
    const { key } = this.announcement;
    let bytes: Buffer;
    try {
      bytes = encodeFrame({ ...message, ...this.#numberOf(message), key }, parts);
    } catch (thrown) {
      if (!("token" in message)) throw thrown;
      this.#options.onUnsent(message.token);
      return;
    }
    if (bytes.byteLength <= this.#maxDirectBytes || !("token" in message)) {
      this.#publish(bytes);
      return;
    }
    const { token } = message;
    const attempt = this.attempts.get(token);
    if (attempt === undefined) return;
    const ref = describeObject(bytes);
    void attempt.offers.add(ref, () => bytes);
    this.#publish(encodeFrame({ type: "object", key, control: this.#options.control, token, ...ref }));
  }

  #numberOf(message: OutgoingFleetMessage): { readonly n?: number } {
    if (!this.announcement.countsMessages || !COUNTED.has(message.type) || !("token" in message)) return {};
    const attempt = this.attempts.get(message.token);
    if (attempt === undefined) return {};
    attempt.sentMessages += 1;
    return { n: attempt.sentMessages };
  }

  /**
   * Answers a request for a part of an object, and returns whether there is one. An executor reads only the objects of
   * calls that it was given.
   * @throws {ObjectError} if it requests more than a correct executor does
   */
  sendPart(request: Omit<PartRequest, "key">): boolean {
    const { token, name, from, length } = request;
    const offers = this.attempts.get(token)?.offers;
    // The executor knows the largest payload, too: a part that NATS does not carry is not sent.
    const part =
      length > carriedBytes(this.#options.connection.maxPayload, MAX_PART_BYTES) ? undefined : offers?.partOf(request);
    // Published as it is: a part must not become an object, whose parts would be as large.
    const send = (): void => {
      const { key } = this.announcement;
      this.#publish(encodeFrame({ type: "part", token, name, from, key }, part === undefined ? [] : [part]));
    };
    if (part === undefined) send();
    else this.#parts.add(send);
    return part !== undefined;
  }

  /** The executor can drop an object. */
  sendReceived(token: string, name: string): void {
    this.send({ type: "received", token, name });
  }

  get #maxDirectBytes(): number {
    return carriedBytes(this.#options.connection.maxPayload, MAX_DIRECT_BYTES);
  }

  #publish(bytes: Uint8Array): void {
    const { connection, control } = this.#options;
    // If no client subscribes, the NATS server reports it to this subject.
    connection.publish(executorSubject(this.id), bytes, controlSubject(control, this.id));
  }

  /** Counts the bundle of a call. */
  countBundle(sha256: string): void {
    if (!this.#bundles.has(sha256)) setBounded(this.#bundles, sha256, true, MAX_BUNDLES);
  }

  /** Tells the executor which calls it still runs for this control plane, and which sessions it keeps. */
  hold(): void {
    const { control } = this.#options;
    const attempts = [...this.attempts.values()];
    const sent = this.announcement.countsMessages ? { sent: attempts.map(({ sentMessages }) => sentMessages) } : {};
    if (attempts.length > 0) this.send({ type: "hold", control, tokens: attempts.map(({ token }) => token), ...sent });
    if (this.sessions.size > 0) this.send({ type: "hold-sessions", control, sessions: [...this.sessions.keys()] });
  }
}
