// The executors that a control plane knows: it follows their announcements, and notices when one falls silent or
// violates the protocol. NATS delivers announcements; there is no membership protocol.
import { randomBytes } from "node:crypto";
import { setBounded } from "../../util/bounded-map.ts";
import type { FleetEvent } from "../fleet-events.ts";
import type { FleetConnection, FleetMessage } from "../nats-connection.ts";
import { ALL_ALIVE, controlSubject, toAnnouncer } from "../protocol/subjects.ts";
import { decodeFrame, hasMagic } from "../protocol/wire.ts";
import { type Announced, parseAnnouncement } from "./announcement.ts";
import { ExecutorInbox } from "./executor-inbox.ts";
import type { DrainOutcome, ExecutorInfo, LostExecutor } from "./fleet-state.ts";
import { IdConflicts } from "./id-conflicts.ts";
import { LostExecutors } from "./lost-executors.ts";
import type { RemoteAttempt } from "./remote-attempt.ts";
import { type CallNeeds, RemoteExecutor } from "./remote-executor.ts";

export interface ExecutorDirectoryOptions {
  readonly connection: FleetConnection;
  /** Time in ms without an announcement after which an executor counts as lost. */
  readonly silenceMs: number;
  /** Called when an executor may have room. */
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
  readonly onEvent: (event: FleetEvent) => void;
}

const TICK_MS = 250;
/** A check that is later than this, in ms, was delayed by this process itself, which has not read what executors sent meanwhile. */
const LATE_TICK_MS = 500;
/** Maximum number of late checks in a row that are left out: a process that is always late must still notice lost executors. */
const MAX_LATE_TICKS = 8;
/** Time in ms between the lists of calls that executors get: several in the time after which they cancel calls on their own. */
const HOLD_MS = 2_000;
/** Maximum number of executors that are followed. Their number is that of the users of the NATS server. */
const MAX_EXECUTORS = 10_000;
/** Time in ms for which the messages of an executor that violates the protocol are not received. */
const BAN_MS = 60_000;
/** Time in ms for which a pool may be without an executor that runs Python or keeps sessions, for example while its executors restart. */
const ABILITY_GONE_MS = 60_000;
/** Pools with such executors that are remembered. */
const MAX_POOLS = 10_000;
/** Time in ms between two reports of foreign bytes on the subject of one executor. */
const FOREIGN_REPORT_MS = 60_000;

const toCalls = (count: number): string => `${count} ${count === 1 ? "call" : "calls"}`;

interface Followed {
  readonly executor: RemoteExecutor<RemoteAttempt>;
  readonly unsubscribe: () => void;
}

/** What a call needs of its executor. */
export interface AvailabilityQuery {
  readonly pools: readonly string[];
  readonly needs: CallNeeds;
  /** Ids of the executors that could not begin it. */
  readonly failedOn: ReadonlySet<string>;
  /** The session in whose isolate it runs. */
  readonly session?: { readonly executor: Pick<RemoteExecutor, "id"> } | undefined;
}

export class ExecutorDirectory implements AsyncDisposable {
  /** Id of this control plane. */
  readonly control: string = randomBytes(12).toString("base64url");
  readonly #options: ExecutorDirectoryOptions;
  readonly #followed = new Map<string, Followed>();
  readonly #bannedUntil = new Map<string, number>();
  readonly #lost = new LostExecutors();
  readonly #conflicts: IdConflicts;
  /** When foreign bytes were last reported, by executor. */
  readonly #foreignAt = new Map<string, number>();
  /** When an executor that runs Python, and one that keeps sessions, was last seen in each pool. */
  readonly #pythonAt = new Map<string, number>();
  readonly #sessionsAt = new Map<string, number>();
  readonly #openedAt = performance.now();
  /** Hash of the Python runtime of this control plane, if it has Python tools. */
  #python: string | undefined;
  readonly #inbox: ExecutorInbox;
  readonly #unsubscribe: () => void;
  readonly #timer: NodeJS.Timeout;
  /** When executors last got a list of their calls, by performance.now(). */
  #heldAt = performance.now();
  #tickDueAt = performance.now() + TICK_MS;
  #lateTicks = 0;
  /** When a check was last late, by performance.now(). */
  #lateAt = Number.NEGATIVE_INFINITY;

  constructor(options: ExecutorDirectoryOptions) {
    this.#options = options;
    this.#conflicts = new IdConflicts(options);
    this.#inbox = new ExecutorInbox(options.connection, {
      onUnreadable: (token) => this.#attemptOf(token)?.lose(),
      onViolation: (executor, thrown) => this.#ban(executor, thrown),
    });
    this.#unsubscribe = options.connection.subscribe(ALL_ALIVE, (message) => this.#onAnnouncement(message));
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#timer.unref();
  }

  list(): readonly ExecutorInfo[] {
    return this.#live()
      .map(({ info }) => info)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  get lost(): readonly LostExecutor[] {
    return this.#lost.list();
  }

  /** Requests that an executor finishes its calls and ends, and waits for its confirmation. */
  async drain(id: string): Promise<DrainOutcome> {
    const executor = this.#live().find((one) => one.id === id);
    if (executor === undefined) return "unknown";
    return (await executor.drain(this.#options.silenceMs)) ? "draining" : "unconfirmed";
  }

  #live(): readonly RemoteExecutor<RemoteAttempt>[] {
    const since = performance.now() - this.#options.silenceMs;
    return [...this.#followed.values()].flatMap(({ executor }) => (executor.seenAt > since ? [executor] : []));
  }

  /**
   * Returns the executors that may get a call now: if one has the isolate of its session, only that one. Those that could not begin this call or
   * others are the last resort: they have free slots because they run nothing, so a call waits for another one that is full rather than fail there.
   */
  available(
    { pools, needs, failedOn, session }: AvailabilityQuery,
    isNested: boolean,
  ): readonly RemoteExecutor<RemoteAttempt>[] {
    const now = performance.now();
    const { silenceMs } = this.#options;
    const usable: RemoteExecutor<RemoteAttempt>[] = [];
    const lastResort: RemoteExecutor<RemoteAttempt>[] = [];
    let hasOther = false;
    for (const { executor } of this.#followed.values()) {
      const isSuitable = pools.includes(executor.announcement.pool) && executor.isReadyFor(needs);
      if (!isSuitable || !executor.isConnected(now, silenceMs, isNested)) continue;
      if (session !== undefined && session.executor !== executor) continue;
      const isLast = session === undefined && (failedOn.has(executor.id) || executor.isFailing(now));
      hasOther ||= !isLast;
      if (executor.canTake(now, silenceMs, isNested)) (isLast ? lastResort : usable).push(executor);
    }
    return hasOther ? usable : lastResort;
  }

  /** Whether an executor of these pools is connected that can run calls with these needs. */
  hasLive(pools: readonly string[], needs: CallNeeds = {}): boolean {
    return this.#live().some((executor) => pools.includes(executor.announcement.pool) && executor.has(needs));
  }

  /** Lets executors with this Python runtime prepare it, now and when they connect later. */
  preparePython(runtime: string): void {
    this.#python = runtime;
    for (const executor of this.#live()) executor.preparePython(runtime);
  }

  /**
   * Returns what these pools lack for a call, although they have executors: they have had none that runs Python, in any
   * version, or none that keeps sessions, for a while. Without any executor, or with another version of Python, the
   * executors may be about to start or to be upgraded.
   */
  lacking(pools: readonly string[], { python, session = false }: CallNeeds): "python" | "sessions" | undefined {
    const since = performance.now() - ABILITY_GONE_MS;
    if (this.#openedAt > since) return undefined;
    const isGone = (at: ReadonlyMap<string, number>): boolean => !pools.some((pool) => (at.get(pool) ?? since) > since);
    if (python !== undefined && isGone(this.#pythonAt)) return this.hasLive(pools) ? "python" : undefined;
    return session && isGone(this.#sessionsAt) && this.hasLive(pools) ? "sessions" : undefined;
  }

  endOwner(owner: string, isShared: boolean): void {
    for (const executor of this.#live()) executor.send({ type: "end-owner", owner, isShared });
  }

  deleteTenant(tenantId: string): void {
    for (const executor of this.#live()) executor.send({ type: "delete-tenant", tenantId });
  }

  #attemptOf(token: string): RemoteAttempt | undefined {
    for (const { executor } of this.#followed.values()) {
      const attempt = executor.attempts.get(token);
      if (attempt !== undefined) return attempt;
    }
    return undefined;
  }

  #onAnnouncement({ subject, data, hasHeaders }: FleetMessage): void {
    const announcer = toAnnouncer(subject);
    if (hasHeaders || announcer === undefined) return;
    const { id, pool } = announcer;
    if ((this.#bannedUntil.get(id) ?? 0) > performance.now()) return;
    const announcement = parseAnnouncement(data, pool);
    if (announcement === undefined) return;
    const { python, hasSessions } = announcement;
    if (python !== undefined) setBounded(this.#pythonAt, pool, performance.now(), MAX_POOLS);
    if (hasSessions) setBounded(this.#sessionsAt, pool, performance.now(), MAX_POOLS);
    const known = this.#followed.get(id);
    const last = known?.executor.announcement;
    if (known !== undefined && last?.key === announcement.key && last.pool === pool) {
      known.executor.announced(announcement);
      this.#conflicts.confirm(known.executor);
    } else {
      if (known !== undefined && last?.key !== announcement.key) {
        const isReplaced = this.#conflicts.replaces(known.executor, announcement.key, this.#isLate());
        if (!isReplaced) return;
      }
      // A new process: the calls of the earlier one are lost.
      if (known !== undefined) {
        const { attempts } = known.executor;
        if (attempts.size > 0)
          this.#reportLost(known.executor, `has restarted while ${toCalls(attempts.size)} ran on it`);
        this.#forget(known);
      }
      this.#follow(id, announcement);
    }
    if (this.#python !== undefined) this.#followed.get(id)?.executor.preparePython(this.#python);
    this.#options.onChange();
  }

  /** Whether announcements may wait to be read, because this process was blocked. */
  #isLate(): boolean {
    const now = performance.now();
    return now - this.#tickDueAt > LATE_TICK_MS || now - this.#lateAt < LATE_TICK_MS;
  }

  #follow(id: string, announcement: Announced): void {
    if (this.#followed.size >= MAX_EXECUTORS) return;
    const { connection } = this.#options;
    const { control } = this;
    const onUnsent = (token: string): void => executor.attempts.get(token)?.lose();
    const executor: RemoteExecutor<RemoteAttempt> = new RemoteExecutor({
      id,
      control,
      connection,
      announcement,
      onUnsent,
    });
    const unsubscribe = connection.subscribe(controlSubject(control, id), (message) =>
      this.#onMessage(executor, message),
    );
    this.#followed.set(id, { executor, unsubscribe });
    if (this.#lost.delete(id))
      this.#options.onEvent({ type: "executor-returned", message: `The executor ${id} is back`, executor: id });
  }

  #reportLost({ id }: RemoteExecutor<RemoteAttempt>, what: string): void {
    this.#options.onEvent({ type: "executor-lost", message: `The executor ${id} ${what}`, executor: id });
  }

  #forget({ executor, unsubscribe }: Followed): void {
    unsubscribe();
    this.#followed.delete(executor.id);
    this.#conflicts.forget(executor.id);
    executor.settleDrains();
    for (const attempt of [...executor.attempts.values()]) attempt.lose();
    for (const session of [...executor.sessions.values()]) session.lose("executor-lost");
  }

  #onMessage(executor: RemoteExecutor<RemoteAttempt>, { data, hasHeaders, status }: FleetMessage): void {
    if (status === 503) {
      this.#onUnreachable(executor);
      return;
    }
    // Without headers, so that no stored message that NATS delivers is taken for one of the executor.
    if (hasHeaders) return;
    if (!hasMagic(data)) {
      this.#onForeign(executor.id);
      return;
    }
    try {
      this.#inbox.receive(executor, decodeFrame(data));
    } catch (thrown) {
      this.#ban(executor, thrown);
    }
  }

  /**
   * Bytes without the magic of the protocol are ignored, and reported once a minute. A correct executor sends none, and a
   * hostile one gains nothing. NATS would send such bytes on behalf of another client, if an operator gave clients more
   * permissions or captured these subjects in a stream: they must not end the calls of an executor.
   */
  #onForeign(id: string): void {
    const now = performance.now();
    if (now - (this.#foreignAt.get(id) ?? Number.NEGATIVE_INFINITY) < FOREIGN_REPORT_MS) return;
    this.#foreignAt.set(id, now);
    this.#options.onError(
      new Error(
        `Bytes that are not a Glovebox message arrived on the subject of the executor ${id} and were ignored. Check that no stream captures "glovebox.control.>", and that NATS uses the current users file`,
      ),
    );
  }

  /** The NATS server says that the executor has no subscription: it has ended, or is about to reconnect. */
  #onUnreachable(executor: RemoteExecutor<RemoteAttempt>): void {
    executor.pause(this.#options.silenceMs);
    for (const attempt of [...executor.attempts.values()]) if (!attempt.isAcknowledged) attempt.lose();
  }

  /** An executor that violates the protocol is not trusted for a while: its calls end, and it gets no others. */
  #ban(executor: RemoteExecutor<RemoteAttempt>, thrown: unknown): void {
    const { onError } = this.#options;
    onError(
      new Error(`The executor ${executor.id} violated the protocol and gets no calls for a minute`, { cause: thrown }),
    );
    this.#bannedUntil.set(executor.id, performance.now() + BAN_MS);
    const known = this.#followed.get(executor.id);
    if (known?.executor !== executor) return;
    this.#lost.add(executor.info, "rejected");
    this.#forget(known);
  }

  #tick(): void {
    const now = performance.now();
    const { silenceMs } = this.#options;
    // Also by a process that is late, whose calls and sessions would end otherwise.
    if (now - this.#heldAt >= HOLD_MS) {
      this.#heldAt = now;
      for (const { executor } of this.#followed.values()) executor.hold();
    }
    const isLate = now - this.#tickDueAt > LATE_TICK_MS;
    this.#tickDueAt = now + TICK_MS;
    this.#lateTicks = isLate ? this.#lateTicks + 1 : 0;
    if (isLate) this.#lateAt = now;
    if (isLate && this.#lateTicks <= MAX_LATE_TICKS) return;
    for (const followed of [...this.#followed.values()]) {
      const { executor } = followed;
      if (now - executor.seenAt >= silenceMs) {
        // One that drained has ended in order.
        if (!executor.announcement.isDraining) {
          const calls = toCalls(executor.attempts.size);
          this.#reportLost(executor, `is lost with ${calls}: it has ended, is frozen or cannot reach NATS`);
          this.#lost.add(executor.info, "silent");
        }
        this.#forget(followed);
        continue;
      }
      for (const attempt of [...executor.attempts.values()]) {
        // Half of the silence, so that a call that never arrived is sent elsewhere early.
        if (attempt.isUnacknowledged(now - silenceMs / 2)) {
          executor.pause(silenceMs);
          attempt.lose();
        }
      }
    }
    for (const [id, until] of this.#bannedUntil) if (until <= now) this.#bannedUntil.delete(id);
    for (const [id, at] of this.#foreignAt) if (now - at > FOREIGN_REPORT_MS) this.#foreignAt.delete(id);
    // A pause of an executor may be over.
    this.#options.onChange();
  }

  /** Ends every call as lost, and closes the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe();
    for (const followed of [...this.#followed.values()]) this.#forget(followed);
    await this.#options.connection[Symbol.asyncDispose]();
  }
}
