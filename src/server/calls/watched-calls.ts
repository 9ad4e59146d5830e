// Log lines of running calls for those who watch them, at any replica. The replica that runs a call writes its lines to the database while it is
// watched from another one, in batches, and never waits for who reads them.
import { randomUUID } from "node:crypto";
import type { Db } from "../database/open-database.ts";
import { BackgroundWork, pause } from "../operation/background-work.ts";
import { deleteOldLines, type LiveKey, type LiveLine, PAGE, readLines, storeLines } from "../records/live-logs.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import { ANSWER_MS, type ReplicaRequests } from "../replicas/requests.ts";
import type { LiveCall, LiveCalls } from "./live-calls.ts";
import { toStoredJson } from "./outcome.ts";

/** Time in ms that lines wait for others, and how often they are looked for. */
const BATCH_MS = 100;
const POLL_MS = 150;
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
  readonly onError: (error: unknown) => void;
}

interface Forwarding {
  until: number;
}

export class WatchedCalls implements AsyncDisposable {
  readonly #dependencies: WatchedCallsDependencies;
  readonly #subscription: Disposable;
  readonly #forwarded = new WeakMap<LiveCall, Forwarding>();
  readonly #background: BackgroundWork;
  readonly #closing = new AbortController();
  #sweeper: NodeJS.Timeout | undefined;

  constructor(dependencies: WatchedCallsDependencies) {
    this.#dependencies = dependencies;
    const { bus, requests, live, onError } = dependencies;
    this.#background = new BackgroundWork(onError);
    this.#subscription = bus.subscribe("watch", async ({ sender, message: { request, tenant, call } }) => {
      if (sender === bus.replicaId) return;
      const found = live.find(tenant, call);
      if (found !== undefined) this.#forward(found, { tenantId: tenant, callId: call });
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
      if (lines.length === PAGE) continue;
      if (isOver) return;
      if (performance.now() - requestedAt > WATCH_MS / 2) {
        requestedAt = performance.now();
        isOver = !(await this.#request(key));
      } else await pause(POLL_MS, signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscription[Symbol.dispose]();
    this.#closing.abort();
    clearInterval(this.#sweeper);
    await this.#background.settled();
  }

  /** Requests the lines of a call from the other replicas. Returns whether one of them runs it. */
  async #request({ tenantId, callId }: LiveKey): Promise<boolean> {
    const limits = { timeoutMs: ANSWER_MS, until: "one" } as const;
    return (await this.#dependencies.requests.send({ type: "watch", tenant: tenantId, call: callId }, limits)).isDone;
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

  /** Writes the lines of a call from now on, for a while. */
  #forward(call: LiveCall, key: LiveKey): void {
    const until = performance.now() + WATCH_MS;
    const known = this.#forwarded.get(call);
    if (known !== undefined) {
      known.until = until;
      return;
    }
    this.#sweeper ??= setInterval(
      () => this.#background.run(() => deleteOldLines(this.#dependencies.db, LINE_MS)),
      SWEEP_MS,
    );
    const forwarding = { until };
    this.#forwarded.set(call, forwarding);
    const running = this.#background.run(() => this.#write(call, key, forwarding));
    call.forwarding = running.finally(() => this.#forwarded.delete(call));
  }

  async #write(call: LiveCall, key: LiveKey, forwarding: Forwarding): Promise<void> {
    const attempt = randomUUID();
    const kept: { readonly index: number; readonly length: number }[] = [];
    let length = 0;
    let next = 0;
    for (;;) {
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
      await storeLines(this.#dependencies.db, key, attempt, lines, kept[0]?.index ?? next);
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
