// The bus between replicas with one Postgres. A message is a row, and a notification only says that there is one: a message is not lost when a
// connection breaks, and arrives without notifications too, by polling.
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { databaseNow } from "../database/database-time.ts";
import type { Db } from "../database/open-database.ts";
import { BackgroundWork } from "../operation/background-work.ts";
import { LocalBus, type MessageHandler, type ReplicaBus, type ReplicaInfo, Subscriptions } from "./bus.ts";
import { aliveCondition, HEARTBEAT_MS } from "./liveness.ts";
import { encodeMessage, type ReplicaMessage } from "./messages.ts";
import { NOTIFY_CHANNEL, NotifyListener } from "./notify-listener.ts";
import { ReplicaMessageReader } from "./replica-message-reader.ts";

/** How often messages are looked for, in ms: with notifications that arrive, and without. */
const POLL_MS = 500;
const FAST_POLL_MS = 150;
/** A message that is older than this in ms is removed: every replica that lives has read it. */
const MESSAGE_MS = 60_000;
const SWEEP_MS = 10_000;
/** Maximum number of replicas that are listed. */
const MAX_LISTED = 1_000;
/** Rows of replicas that have ended without a word are removed after this time in ms. */
const GONE_MS = 60 * 60_000;

export interface PostgresBusOptions {
  readonly db: Db;
  /** For the connection that listens. */
  readonly url: string;
  /** Version of Glovebox. */
  readonly version: string;
  readonly onError: (error: unknown) => void;
}

export class PostgresBus implements ReplicaBus {
  readonly replicaId: string = `replica-${randomUUID()}`;
  readonly #options: PostgresBusOptions;
  readonly #reader: ReplicaMessageReader;
  readonly #subscriptions: Subscriptions;
  readonly #listener: NotifyListener;
  #reading: Promise<void> | undefined;
  #isWanted = false;
  #isClosed = false;
  #hasFailed = false;
  #url: string | undefined;
  #polling: NodeJS.Timeout | undefined;
  readonly #timers: readonly NodeJS.Timeout[];
  readonly #background: BackgroundWork;

  private constructor(options: PostgresBusOptions, reader: ReplicaMessageReader) {
    this.#options = options;
    this.#reader = reader;
    this.#subscriptions = new Subscriptions(options.onError);
    this.#background = new BackgroundWork(options.onError);
    this.#listener = new NotifyListener({
      url: options.url,
      db: options.db,
      replicaId: this.replicaId,
      onNotification: () => this.#wake(),
    });
    this.#timers = [
      setInterval(() => this.#background.run(() => this.#safely(() => this.#announce())), HEARTBEAT_MS),
      setInterval(() => this.#background.run(() => this.#safely(() => this.#sweep())), SWEEP_MS),
    ];
    this.#poll();
  }

  /** Opens the bus. The database must have the current schema. */
  static async open(options: PostgresBusOptions): Promise<PostgresBus> {
    const bus = new PostgresBus(options, await ReplicaMessageReader.open(options.db));
    try {
      await bus.#announce();
      return bus;
    } catch (thrown) {
      await bus[Symbol.asyncDispose]();
      throw thrown;
    }
  }

  /** Whether notifications arrive. Otherwise messages do so a little later. */
  get isListening(): boolean {
    return this.#listener.isDelivering;
  }

  async setUrl(url: string): Promise<void> {
    this.#url = url;
    await this.#announce();
  }

  async publish(message: ReplicaMessage, transaction: Db = this.#options.db): Promise<void> {
    const body = encodeMessage(message);
    await sql`
      with added as (
        insert into replica_messages (sender, body, created_at) values (${this.replicaId}, ${body}, ${databaseNow})
        returning id
      ) select pg_notify(${NOTIFY_CHANNEL}, id::text) from added`.execute(transaction);
  }

  subscribe<Type extends ReplicaMessage["type"]>(type: Type, handler: MessageHandler<Type>): Disposable {
    return this.#subscriptions.add(type, handler);
  }

  async peers(): Promise<readonly string[]> {
    const rows = await this.#options.db
      .selectFrom("replicas")
      .select("id")
      .where("id", "!=", this.replicaId)
      .where(aliveCondition(sql.ref("replicas.id")))
      .execute();
    return rows.map(({ id }) => id);
  }

  async replicas(): Promise<readonly ReplicaInfo[]> {
    const rows = await this.#options.db
      .selectFrom("replicas")
      .select(["id", "version", "started_at as startedAt", "seen_at as seenAt"])
      .select(aliveCondition(sql.ref("replicas.id")).as("isAlive"))
      .orderBy("started_at")
      .orderBy("id")
      .limit(MAX_LISTED)
      .execute();
    return rows;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#polling);
    for (const timer of this.#timers) clearInterval(timer);
    await this.#listener[Symbol.asyncDispose]();
    await this.#reading;
    await this.#background.settled();
    await this.#safely(async () => {
      await this.#options.db.deleteFrom("replicas").where("id", "=", this.replicaId).execute();
    });
  }

  #poll(): void {
    if (this.#isClosed) return;
    this.#polling = setTimeout(
      () => {
        this.#wake();
        this.#poll();
      },
      this.#listener.isDelivering ? POLL_MS : FAST_POLL_MS,
    );
  }

  /** Reads soon, one time at a time. */
  #wake(): void {
    this.#isWanted = true;
    if (this.#isClosed) return;
    this.#reading ??= this.#safely(() => this.#read()).finally(() => {
      this.#reading = undefined;
    });
  }

  async #read(): Promise<void> {
    while (this.#isWanted && !this.#isClosed) {
      this.#isWanted = false;
      for (const received of await this.#reader.read()) this.#subscriptions.deliver(received);
    }
  }

  async #announce(): Promise<void> {
    const { db, version } = this.#options;
    const url = this.#url === undefined ? {} : { url: this.#url };
    await db
      .insertInto("replicas")
      .values({ id: this.replicaId, version, started_at: databaseNow, seen_at: databaseNow, ...url })
      .onConflict((conflict) => conflict.column("id").doUpdateSet({ seen_at: databaseNow, ...url }))
      .execute();
  }

  async #sweep(): Promise<void> {
    const { db } = this.#options;
    const before = (ms: number) => sql<number>`${databaseNow} - ${ms}::bigint`;
    await db.deleteFrom("replica_messages").where("created_at", "<", before(MESSAGE_MS)).execute();
    await db.deleteFrom("replicas").where("seen_at", "<", before(GONE_MS)).execute();
  }

  /** Reports the first failure of several: a database that is away would fill the log. */
  async #safely(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#hasFailed = false;
    } catch (thrown) {
      if (!this.#hasFailed) this.#options.onError(thrown);
      this.#hasFailed = true;
    }
  }
}

/** Opens the bus that fits a database. @param url of Postgres; undefined for SQLite */
export async function openBus({
  url,
  ...options
}: Omit<PostgresBusOptions, "url"> & { readonly url: string | undefined }): Promise<ReplicaBus> {
  return url === undefined
    ? new LocalBus(options.onError, options.version)
    : await PostgresBus.open({ ...options, url });
}
