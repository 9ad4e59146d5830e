// Log lines and timelines so far of running calls for those who watch them, at any replica. While a call is watched from another replica, the
// replica that runs it writes its lines to the database in batches, and its timeline once a second if that is watched. It never waits for the
// reader.
import { randomUUID } from "node:crypto";
import type { OpenTimeline } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import { BackgroundWork, pause } from "../../operation/background-work.ts";
import {
  deleteOldLines,
  LINES_PER_READ,
  type LiveKey,
  type LiveLine,
  type LiveSnapshot,
  readLines,
  readSnapshot,
  storeLines,
  storeSnapshot,
} from "../../records/calls/live-logs.ts";
import type { ReplicaBus } from "../../replicas/bus.ts";
import { ANSWER_MS, type ReplicaRequests } from "../../replicas/requests.ts";
import { toStoredJson } from "../outcome.ts";
import type { LiveCall, LiveCalls } from "./live-calls.ts";

/** Time in ms that lines wait for others, and how often they are looked for. */
const BATCH_MS = 100;
const POLL_MS = 150;
/** How often the unfinished timeline is written, how old it may be when it is read, and how often it is looked for, in ms. */
const SNAPSHOT_MS = { write: 1_000, read: 3_000, poll: 50 } as const;
/** A watcher says that it still watches in half of the time in ms after which its call's lines are not written any more. */
const WATCH_MS = 10_000;
/** Largest batch, in lines and in UTF-16 code units. */
const BATCH_LINES = 50;
const BATCH_LENGTH = 512 * 1024;
/** What is kept of one call: a watcher that is slower misses lines. */
const KEPT_LINES = 1_000;
const KEPT_LENGTH = 4 * 1024 * 1024;
/** Age in ms at which lines are removed, and how often that happens. */
const LINE_MS = 60_000;
const SWEEP_MS = 15_000;

export interface WatchedCallsDependencies {
  readonly db: Db;
  readonly bus: ReplicaBus;
  readonly requests: ReplicaRequests;
  readonly live: LiveCalls;
  /** Returns the unfinished timeline of a call that runs in this process; undefined if it does not run here. */
  readonly timelineOf: (key: LiveKey) => OpenTimeline | undefined;
  readonly onError: (error: unknown) => void;
}

/** Until when lines are written, and snapshots of the timeline: times by performance.now(). */
interface Forwarding {
  until: number;
  timelineUntil: number;
}

/** Whether a call runs, and what it has done so far: undefined if that is not recorded. */
export interface TimelineSoFar {
  readonly isRunning: boolean;
  readonly soFar?: LiveSnapshot | OpenTimeline | undefined;
}

export class WatchedCalls implements AsyncDisposable {
  readonly #dependencies: WatchedCallsDependencies;
  readonly #subscription: Disposable;
  readonly #forwarded = new WeakMap<LiveCall, Forwarding>();
  readonly #background: BackgroundWork;
  readonly #closing = new AbortController();
  /** When the timelines of calls at other replicas were last requested, by performance.now(): those of the last 10 s. */
  readonly #requestedAt = new Map<string, number>();
  #sweeper: NodeJS.Timeout | undefined;

  constructor(dependencies: WatchedCallsDependencies) {
    this.#dependencies = dependencies;
    const { bus, requests, live, onError } = dependencies;
    this.#background = new BackgroundWork(onError);
    this.#subscription = bus.subscribe("watch", async ({ sender, message: { request, tenant, call, timeline } }) => {
      if (sender === bus.replicaId) return;
      const found = live.find(tenant, call);
      if (found !== undefined) this.#forward(found, { tenantId: tenant, callId: call }, timeline === true);
      await requests.answer(request, found !== undefined);
    });
  }

  /** Returns whether a call runs in any replica. */
  async isRunning(key: LiveKey): Promise<boolean> {
    return this.#dependencies.live.find(key.tenantId, key.callId) !== undefined || (await this.#request(key));
  }

  /**
   * Yields the lines of a call that runs, each with its number, until it has ended or the signal aborts.
   * @param from number of the first line, unless it is no longer kept
   */
  async *lines(key: LiveKey, signal: AbortSignal, from = 0): AsyncGenerator<LiveLine, void> {
    const own = this.#dependencies.live.find(key.tenantId, key.callId);
    if (own !== undefined) return yield* own.lines(signal, from);
    if (!(await this.#request(key))) return;
    let next = from;
    let requestedAt = performance.now();
    let isOver = false;
    while (!signal.aborted && !this.#closing.signal.aborted) {
      // Before its lines are read: they are written before it has ended.
      isOver ||= await this.#hasEnded(key);
      const lines = await readLines(this.#dependencies.db, key, next);
      for (const line of lines) {
        yield line;
        next = line.index + 1;
      }
      if (lines.length === LINES_PER_READ) continue;
      if (isOver) return;
      if (performance.now() - requestedAt > WATCH_MS / 2) {
        requestedAt = performance.now();
        isOver = !(await this.#request(key));
      } else await pause(POLL_MS, signal);
    }
  }

  /** Returns what a call that runs in any replica has done so far. */
  async timeline(key: LiveKey): Promise<TimelineSoFar> {
    const { live, timelineOf, db } = this.#dependencies;
    const own = timelineOf(key);
    if (own !== undefined || live.find(key.tenantId, key.callId) !== undefined) return { isRunning: true, soFar: own };
    if (this.#isRequested(key)) {
      const found = await readSnapshot(db, key, SNAPSHOT_MS.read);
      if (found !== undefined) return { isRunning: true, soFar: found };
    }
    if (!(await this.#request(key, true))) return { isRunning: false };
    this.#keepRequested(key);
    const until = performance.now() + ANSWER_MS;
    while (performance.now() < until && !this.#closing.signal.aborted) {
      const found = await readSnapshot(db, key, SNAPSHOT_MS.read);
      if (found !== undefined || (await this.#hasEnded(key))) return { isRunning: true, soFar: found };
      await pause(SNAPSHOT_MS.poll, this.#closing.signal);
    }
    return { isRunning: true };
  }

  /** Whether the snapshots of a call are being written, so that each read need not send a message to all replicas. */
  #isRequested({ tenantId, callId }: LiveKey): boolean {
    const at = this.#requestedAt.get(`${tenantId} ${callId}`);
    return at !== undefined && performance.now() - at < WATCH_MS / 2;
  }

  #keepRequested({ tenantId, callId }: LiveKey): void {
    const now = performance.now();
    for (const [key, at] of this.#requestedAt) if (now - at > WATCH_MS) this.#requestedAt.delete(key);
    this.#requestedAt.set(`${tenantId} ${callId}`, now);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscription[Symbol.dispose]();
    this.#closing.abort();
    clearInterval(this.#sweeper);
    await this.#background.settled();
  }

  /** Requests the lines of a call from the other replicas, and its timeline. Returns whether one of them runs it. */
  async #request({ tenantId, callId }: LiveKey, timeline = false): Promise<boolean> {
    const limits = { timeoutMs: ANSWER_MS, until: "one" } as const;
    const watch = { type: "watch", tenant: tenantId, call: callId, ...(timeline ? { timeline } : {}) } as const;
    const { isDone } = await this.#dependencies.requests.send(watch, limits);
    // What a replica has written before it died is removed by those that have read it.
    if (isDone) this.#sweep();
    return isDone;
  }

  #sweep(): void {
    if (this.#closing.signal.aborted) return;
    this.#sweeper ??= setInterval(
      () => this.#background.run(() => deleteOldLines(this.#dependencies.db, LINE_MS)),
      SWEEP_MS,
    );
  }

  async #hasEnded({ tenantId, callId }: LiveKey): Promise<boolean> {
    const row = await this.#dependencies.db
      .selectFrom("calls")
      .select("ended_at")
      .where("tenant_id", "=", tenantId)
      .where("id", "=", callId)
      .executeTakeFirst();
    return row !== undefined && row.ended_at !== null;
  }

  /** Writes the lines of a call from now on, for a while, and snapshots of its timeline. */
  #forward(call: LiveCall, key: LiveKey, withTimeline: boolean): void {
    const until = performance.now() + WATCH_MS;
    const known = this.#forwarded.get(call);
    if (known !== undefined) {
      known.until = until;
      if (withTimeline) known.timelineUntil = until;
      return;
    }
    this.#sweep();
    const forwarding = { until, timelineUntil: withTimeline ? until : Number.NEGATIVE_INFINITY };
    this.#forwarded.set(call, forwarding);
    const running = this.#background.run(() => this.#write(call, key, forwarding));
    call.forwarding = running.finally(() => this.#forwarded.delete(call));
  }

  async #write(call: LiveCall, key: LiveKey, forwarding: Forwarding): Promise<void> {
    const attempt = { ...key, attempt: randomUUID() };
    const kept: { readonly index: number; readonly length: number }[] = [];
    let length = 0;
    let next = 0;
    let writtenAt = Number.NEGATIVE_INFINITY;
    for (;;) {
      const now = performance.now();
      const isDue = now < forwarding.timelineUntil && now - writtenAt >= SNAPSHOT_MS.write;
      const timeline = isDue ? this.#dependencies.timelineOf(key) : undefined;
      if (timeline !== undefined) {
        writtenAt = now;
        await storeSnapshot(this.#dependencies.db, attempt, timeline);
      }
      // An end that comes while lines are written is seen after the next ones.
      const { isEnded } = call;
      const lines = takeBatch(call, next);
      const last = lines.at(-1);
      if (last === undefined) {
        if (isEnded || this.#closing.signal.aborted || performance.now() > forwarding.until) return;
        await Promise.race([call.ended, pause(BATCH_MS, this.#closing.signal)]);
        continue;
      }
      next = last.index + 1;
      for (const line of lines) {
        kept.push({ index: line.index, length: line.text.length });
        length += line.text.length;
      }
      while (kept.length > KEPT_LINES || length > KEPT_LENGTH) length -= kept.shift()?.length ?? 0;
      await storeLines(this.#dependencies.db, attempt, lines, kept[0]?.index ?? next);
      await Promise.race([call.ended, pause(BATCH_MS, this.#closing.signal)]);
    }
  }
}

/** Returns the next lines of a call as they are stored: without secrets, and not too many. */
function takeBatch(call: LiveCall, from: number): readonly { readonly index: number; readonly text: string }[] {
  const lines: { readonly index: number; readonly text: string }[] = [];
  let length = 0;
  for (const { index, entry } of call.take(from, BATCH_LINES)) {
    const text = toStoredJson(entry);
    length += text.length;
    if (lines.length > 0 && length > BATCH_LENGTH) break;
    lines.push({ index, text });
  }
  return lines;
}
