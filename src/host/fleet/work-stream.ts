// The work queue between control planes: a JetStream stream with one message for each asynchronous call that waits. A
// message holds only the id of a call. The database decides whether the call runs, so a message that is lost, repeated
// or forged costs time and changes no result.
import { createHash } from "node:crypto";
import type { Consumer, JetStreamClient, JetStreamManager, JsMsg, StreamConfig } from "@nats-io/jetstream";
import * as z from "zod";
import { setBounded } from "../util/bounded-map.ts";
import { connectFleet, type FleetConnection } from "./nats-connection.ts";
import { natsOf } from "./nats-library.ts";
import { workStreamName, workSubject } from "./protocol/subjects.ts";

/** Pool of the calls that run on the control plane itself. No pool of executors can have this name. */
export const LOCAL_POOL = "_local";
/**
 * Queues of one pool. A tenant's calls are in one of them, and control planes serve all of them in turn: a tenant with
 * many waiting calls delays an eighth of the others.
 */
export const WORK_SHARDS = 8;
/** Time in ms after which NATS delivers a message again whose receiver is silent: as long as the lease of a call. */
export const ACK_WAIT_MS = 15_000;
/** Deliveries of a message. Before the last one the message is dropped, and published again while its call waits. */
const MAX_DELIVERIES = 100;
/** A call that waits for longer leaves the stream, and is published again when it is due. */
const LONGEST_DELAY_MS = 60_000;
const MAX_MESSAGES = 1_000_000;
const MAX_STREAM_BYTES = 256 * 1024 * 1024;
const MAX_AGE_MS = 24 * 3_600_000;
const DUPLICATE_WINDOW_MS = 2 * 60_000;
/** Messages of one queue that may be delivered and unacknowledged, those with a delay included. */
const MAX_UNACKNOWLEDGED = 100_000;
const MAX_MESSAGE_BYTES = 512;
const TIMEOUT_MS = 5_000;
/** Time in ms for which a request for messages stays open. NATS proves every half of it that it still has the request. */
const PULL_MS = 10_000;
const MAX_KNOWN_SHARDS = 100_000;
const MS = 1_000_000;
/** NATS has a message of the call already, or the stream is full. */
const NOT_STORED = /maximum (?:messages|bytes)/;

const WorkMessageSchema = z.strictObject({ v: z.literal(1), id: z.string().regex(/^call_[0-9a-z]{1,64}$/) });

/** A call that waits. */
export interface WorkItem {
  readonly id: string;
  readonly tenantId: string;
  /** Distinguishes the times at which the call was put into the queue. */
  readonly fence: number;
}

/** A message that this process has received. NATS delivers it again, unless one of the methods is called in time. */
export interface WorkDelivery {
  /** Id of the call. It has not been checked against the database. */
  readonly id: string;
  /** Removes the message: the call has ended, or will be published again. */
  ack(): void;
  /** Extends the time until NATS delivers the message again. */
  working(): void;
  /** Lets NATS deliver the message again after a time in ms. */
  later(ms: number): void;
}

/** Calls of a pool that wait in the stream. */
export interface WorkBacklog {
  readonly pool: string;
  readonly queued: number;
  /** When the oldest was published, in ms since 1970; undefined if none waits. */
  readonly oldestAt: number | undefined;
}

export interface WorkStreamOptions {
  readonly urls: readonly string[];
  readonly credentials?: string | undefined;
  readonly tlsCa?: string | undefined;
  /** Identifies the database: letters and digits. */
  readonly database: string;
  /**
   * Copies of the stream in a cluster of NATS servers.
   * @default 1
   */
  readonly replicas?: number | undefined;
  /** Called for messages that no control plane publishes. They are removed. */
  readonly onInvalid: (error: Error) => void;
}

/** A request for messages that is open. */
export interface WorkPull {
  /** Resolves when the request is over. Rejects if NATS does not answer, or has lost the queue. */
  readonly done: Promise<void>;
  close(): void;
}

export class WorkStream implements AsyncDisposable {
  readonly #options: WorkStreamOptions;
  readonly #connection: FleetConnection;
  /** Undefined until NATS was reached. */
  #jetStream: { readonly manager: JetStreamManager; readonly client: JetStreamClient } | undefined;
  readonly #name: string;
  readonly #consumers = new Map<string, Promise<Consumer>>();
  readonly #shards = new Map<string, number>();
  /** Counts how often the stream was opened. */
  #generation = 0;
  #isOpen = false;
  #onInterrupted = (): void => {};

  // Private, so that the declaration of this class does not contain the types of an optional package.
  private constructor(options: WorkStreamOptions, connection: FleetConnection) {
    this.#options = options;
    this.#connection = connection;
    this.#name = workStreamName(options.database);
  }

  /**
   * Opens the connection, and the stream of the work queue if NATS can be reached.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for wrong credentials
   * @throws {Error} as a rejection, if NATS has no JetStream
   */
  static async connect(options: WorkStreamOptions): Promise<WorkStream> {
    const { urls, credentials, tlsCa } = options;
    await using resources = new AsyncDisposableStack();
    let onInterrupted = (): void => {};
    const connection = resources.use(
      await connectFleet({
        urls,
        credentials,
        tlsCa,
        role: "control-plane",
        onEvent: ({ type }) => {
          if (type === "nats-lost") onInterrupted();
        },
      }),
    );
    const stream = new WorkStream(options, connection);
    onInterrupted = () => stream.#onInterrupted();
    if (connection.outageMs === 0) {
      await stream.open().catch((thrown: unknown) => {
        if (connection.outageMs === 0) throw thrown;
      });
    }
    resources.move();
    return stream;
  }

  /** Whether there is a connection to NATS. */
  get isReached(): boolean {
    return this.#connection.outageMs === 0;
  }

  /** Whether the stream was opened. Otherwise NATS has not been reached yet. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Creates the stream if it is missing. Call it again after a failure: NATS may have lost its files.
   * @throws {Error} as a rejection, if NATS cannot be reached
   */
  async open(): Promise<void> {
    const nats = natsOf(this.#connection);
    if (this.#jetStream === undefined) {
      const { jetstreamManager } = await import("@nats-io/jetstream");
      const manager = await jetstreamManager(nats, { timeout: TIMEOUT_MS, checkAPI: false });
      this.#jetStream = { manager, client: manager.jetstream() };
    }
    this.#consumers.clear();
    const { database, replicas = 1 } = this.#options;
    const config = toConfig(this.#name, workSubject(database, "*", "*", "*"), replicas);
    const { streams } = this.#jetStream.manager;
    this.#generation += 1;
    await streams.add(config).catch(async (thrown: unknown) => {
      return await streams.update(this.#name, config).catch(() => {
        throw thrown;
      });
    });
    this.#isOpen = true;
  }

  get #opened(): { readonly manager: JetStreamManager; readonly client: JetStreamClient } {
    if (this.#jetStream === undefined) throw new Error("NATS has not been reached yet");
    return this.#jetStream;
  }

  /** Calls back when the connection is interrupted, which ends the requests for messages. */
  follow(onInterrupted: () => void): void {
    this.#onInterrupted = onInterrupted;
  }

  /** Returns the queue of a tenant's calls. It does not tell who the tenant is. */
  shardOf(tenantId: string): number {
    const known = this.#shards.get(tenantId);
    if (known !== undefined) return known;
    const shard = createHash("sha256").update(tenantId).digest().readUInt32LE(0) % WORK_SHARDS;
    setBounded(this.#shards, tenantId, shard, MAX_KNOWN_SHARDS);
    return shard;
  }

  /**
   * Adds a call. It is at most once in the stream.
   * @returns whether it was added. Otherwise it is there already, or was a short while ago, or the stream is full
   * @throws {Error} as a rejection, if NATS does not answer
   */
  async publish(pool: string, { id, tenantId, fence }: WorkItem): Promise<boolean> {
    const shard = this.shardOf(tenantId);
    // Without a consumer, the queue would be missing in the backlog.
    await this.#consumerOf(pool, shard);
    const subject = workSubject(this.#options.database, pool, shard, id);
    const payload = JSON.stringify({ v: 1, id } satisfies z.infer<typeof WorkMessageSchema>);
    try {
      const options = { msgID: `${id}.${fence}`, timeout: TIMEOUT_MS };
      return !(await this.#opened.client.publish(subject, payload, options)).duplicate;
    } catch (thrown) {
      if (thrown instanceof Error && NOT_STORED.test(thrown.message)) return false;
      throw thrown;
    }
  }

  /** Requests messages of one queue of a pool, and passes each on as it arrives. */
  pull(pool: string, shard: number, max: number, onDelivery: (delivery: WorkDelivery) => void): WorkPull {
    let isClosed = false;
    let close = (): void => {};
    const run = async (): Promise<void> => {
      const consumer = await this.#consumerOf(pool, shard);
      if (isClosed) return;
      const messages = await consumer.fetch({ max_messages: max, expires: PULL_MS, bind: true });
      close = () => void messages.close();
      if (isClosed) close();
      for await (const message of messages) {
        const delivery = this.#receive(message);
        if (delivery !== undefined) onDelivery(delivery);
      }
    };
    return {
      done: run(),
      close: () => {
        isClosed = true;
        close();
      },
    };
  }

  #receive(message: JsMsg): WorkDelivery | undefined {
    const { id } = parseMessage(message.data) ?? {};
    if (id === undefined || !message.subject.endsWith(`.${id}`)) {
      message.term();
      this.#options.onInvalid(new Error("The work queue held a message that is not valid. It was removed"));
      return undefined;
    }
    const generation = this.#generation;
    // The number of a message can be another call's in a stream that NATS had lost.
    const reply = (how: () => void): void => {
      if (generation === this.#generation) how();
    };
    const isLast = message.info.deliveryCount >= MAX_DELIVERIES - 1;
    return {
      id,
      ack: () => reply(() => message.ack()),
      working: () => reply(() => message.working()),
      later: (ms) =>
        reply(() => {
          if (isLast || ms > LONGEST_DELAY_MS) message.ack();
          else message.nak(Math.max(0, Math.ceil(ms)));
        }),
    };
  }

  /** Returns the pools with their waiting calls, as NATS counts them for all control planes. */
  async backlog(): Promise<readonly WorkBacklog[]> {
    const pools = new Map<string, { queued: number; oldestAt: number | undefined }>();
    for await (const { config, num_pending, delivered } of this.#opened.manager.consumers.list(this.#name)) {
      const filter = config.filter_subject ?? "";
      const pool = filter.split(".")[3];
      if (pool === undefined) continue;
      const found = pools.get(pool) ?? { queued: 0, oldestAt: undefined };
      pools.set(pool, found);
      if (num_pending === 0) continue;
      found.queued += num_pending;
      const query = { seq: delivered.stream_seq + 1, next_by_subj: filter };
      const oldest = await this.#opened.manager.streams.getMessage(this.#name, query);
      if (oldest !== null) found.oldestAt = Math.min(found.oldestAt ?? Number.POSITIVE_INFINITY, oldest.time.getTime());
    }
    return [...pools].map(([pool, counts]) => ({ pool, ...counts }));
  }

  async #consumerOf(pool: string, shard: number): Promise<Consumer> {
    const name = `${pool}-${shard}`;
    const known = this.#consumers.get(name);
    if (known !== undefined) return await known;
    const created = this.#createConsumer(pool, shard, name);
    this.#consumers.set(name, created);
    created.catch(() => this.#consumers.delete(name));
    return await created;
  }

  async #createConsumer(pool: string, shard: number, name: string): Promise<Consumer> {
    const info = await this.#opened.manager.consumers.add(this.#name, {
      durable_name: name,
      filter_subject: workSubject(this.#options.database, pool, shard, "*"),
      ack_policy: "explicit",
      ack_wait: ACK_WAIT_MS * MS,
      max_deliver: MAX_DELIVERIES,
      max_ack_pending: MAX_UNACKNOWLEDGED,
    });
    return this.#opened.client.consumers.getConsumerFromInfo(info);
  }

  /** Sends what was acknowledged, and closes the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection[Symbol.asyncDispose]();
  }
}

const toConfig = (
  name: string,
  subject: string,
  replicas: number,
): Partial<StreamConfig> & { readonly name: string } => ({
  name,
  subjects: [subject],
  retention: "workqueue",
  storage: "file",
  // A full stream rejects calls, which then wait in the database only.
  discard: "new",
  max_msgs_per_subject: 1,
  discard_new_per_subject: true,
  max_msgs: MAX_MESSAGES,
  max_bytes: MAX_STREAM_BYTES,
  max_msg_size: MAX_MESSAGE_BYTES,
  max_age: MAX_AGE_MS * MS,
  duplicate_window: DUPLICATE_WINDOW_MS * MS,
  num_replicas: replicas,
});

function parseMessage(data: Uint8Array): z.infer<typeof WorkMessageSchema> | undefined {
  if (data.byteLength > MAX_MESSAGE_BYTES) return undefined;
  try {
    return WorkMessageSchema.safeParse(JSON.parse(Buffer.from(data).toString())).data;
  } catch {
    return undefined;
  }
}
