// One connection to Postgres that listens to notifications. It connects again when it breaks, and is tested from time to time, because a pooler
// in between may accept LISTEN and never deliver anything.
import { sql } from "kysely";
import type { Db } from "../database/open-database.ts";
import { openPgClient } from "../database/postgres-dialect.ts";
import { pause } from "../operation/background-work.ts";

/** The channel of the notifications. Each database has its own. */
export const NOTIFY_CHANNEL = "glovebox";

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 5_000;
/** How often the connection is tested, and how long the test may take, in ms. */
const PROBE_MS = 5_000;
const PROBE_TIMEOUT_MS = 2_000;
const PROBE_PREFIX = "probe:";

export interface NotifyListenerDependencies {
  readonly url: string;
  /** Sends the notifications of the test, over another connection. */
  readonly db: Db;
  readonly replicaId: string;
  /** Called for each notification that is not a test. */
  readonly onNotification: () => void;
}

export class NotifyListener implements AsyncDisposable {
  readonly #dependencies: NotifyListenerDependencies;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #isDelivering = false;
  #probed: (() => void) | undefined;

  constructor(dependencies: NotifyListenerDependencies) {
    this.#dependencies = dependencies;
    this.#running = this.#run();
  }

  /** Whether notifications have arrived over this connection when it was last tested. */
  get isDelivering(): boolean {
    return this.#isDelivering;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let delay = FIRST_DELAY_MS;
    while (!signal.aborted) {
      // A failed connection is not reported: messages are then read by polling, a little later.
      if (await this.#listen().catch(() => false)) delay = FIRST_DELAY_MS;
      this.#isDelivering = false;
      await pause(delay * (1 + Math.random() / 4), signal);
      delay = Math.min(LONGEST_DELAY_MS, delay * 2);
    }
  }

  /** Listens until the connection breaks or fails its test. Returns whether it has worked. */
  async #listen(): Promise<boolean> {
    const { url, replicaId, onNotification } = this.#dependencies;
    const { signal } = this.#stop;
    const client = await openPgClient(url);
    const ended = new AbortController();
    const end = (): void => {
      ended.abort();
      // Ends also an attempt to connect, and a connection whose peer is gone and would not answer.
      client.connection?.stream.destroy();
    };
    client.on("error", end);
    client.on("end", end);
    signal.addEventListener("abort", end, { once: true });
    client.on("notification", ({ payload = "" }) => {
      if (payload === `${PROBE_PREFIX}${replicaId}`) this.#probed?.();
      else if (!payload.startsWith(PROBE_PREFIX)) onNotification();
    });
    let hasWorked = false;
    try {
      await client.connect();
      await client.query(`listen ${NOTIFY_CHANNEL}`);
      while (!ended.signal.aborted && (await this.#probe(ended.signal))) {
        this.#isDelivering = true;
        // Reads messages that were sent before the connection listened.
        if (!hasWorked) onNotification();
        hasWorked = true;
        await pause(PROBE_MS, ended.signal);
      }
      return hasWorked;
    } finally {
      signal.removeEventListener("abort", end);
      this.#isDelivering = false;
      end();
    }
  }

  /** Sends a notification to itself. Returns whether it has arrived. */
  async #probe(signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#probed = () => resolve(true);
    const timer = setTimeout(() => resolve(false), PROBE_TIMEOUT_MS);
    const abort = (): void => resolve(false);
    signal.addEventListener("abort", abort, { once: true });
    try {
      const sent = sql`select pg_notify(${NOTIFY_CHANNEL}, ${PROBE_PREFIX + this.#dependencies.replicaId})`.execute(
        this.#dependencies.db,
      );
      return (await Promise.race([promise, sent.then(() => promise)])) && !signal.aborted;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      this.#probed = undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}
