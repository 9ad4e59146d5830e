// The bus between the processes of a server that share a database. With SQLite there is one process, which receives its own messages.
import type { Db } from "../database/open-database.ts";
import type { ReceivedMessage, ReplicaMessage } from "./messages.ts";

export type MessageHandler<Type extends ReplicaMessage["type"]> = (received: ReceivedMessage<Type>) => unknown;

/** A process of the server. */
export interface ReplicaInfo {
  readonly id: string;
  /** Version of Glovebox. */
  readonly version: string;
  /** Times of the database in ms since 1970. */
  readonly startedAt: number;
  readonly seenAt: number;
  readonly isAlive: boolean;
}

/** Sends messages to all replicas, this one included. */
export interface ReplicaBus extends AsyncDisposable {
  /** Id of this process on the bus. */
  readonly replicaId: string;
  /** Lets the other replicas know where they reach this one. @param url its origin */
  setUrl(url: string): Promise<void>;
  /**
   * Sends a message. It arrives at each replica that lives, once, shortly after.
   * @param transaction sends it when the transaction is committed, and not at all if it is rolled back
   */
  publish(message: ReplicaMessage, transaction?: Db): Promise<void>;
  /** Receives the messages of a type until it is disposed. What a handler throws is reported, and concerns no other handler. */
  subscribe<Type extends ReplicaMessage["type"]>(type: Type, handler: MessageHandler<Type>): Disposable;
  /** Returns the ids of the other replicas that are alive. */
  peers(): Promise<readonly string[]>;
  /** Returns all replicas, this one included, and those that have ended without a shutdown within the last hour. */
  replicas(): Promise<readonly ReplicaInfo[]>;
}

/** The handlers of a process, by type of message. */
export class Subscriptions {
  readonly #handlers = new Map<ReplicaMessage["type"], Set<(received: ReceivedMessage) => unknown>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  add<Type extends ReplicaMessage["type"]>(type: Type, handler: MessageHandler<Type>): Disposable {
    const handlers = this.#handlers.get(type) ?? new Set();
    const own = (received: ReceivedMessage): unknown => handler(received as never);
    this.#handlers.set(type, handlers.add(own));
    return { [Symbol.dispose]: () => void handlers.delete(own) };
  }

  deliver(received: ReceivedMessage): void {
    for (const handler of this.#handlers.get(received.message.type) ?? []) void this.#run(handler, received);
  }

  async #run(handler: (received: ReceivedMessage) => unknown, received: ReceivedMessage): Promise<void> {
    try {
      await handler(received);
    } catch (thrown) {
      this.#onError(thrown);
    }
  }
}

/** The bus of a server that has its database for itself. */
export class LocalBus implements ReplicaBus {
  readonly replicaId = "local";
  readonly #subscriptions: Subscriptions;
  readonly #version: string;
  readonly #startedAt = Date.now();

  /** @param version of Glovebox */
  constructor(onError: (error: unknown) => void, version: string) {
    this.#subscriptions = new Subscriptions(onError);
    this.#version = version;
  }

  async setUrl(): Promise<void> {}

  async publish(message: ReplicaMessage): Promise<void> {
    // Later, as with other processes. SQLite has one connection, so what a handler reads is read after the sender's transaction.
    setImmediate(() => this.#subscriptions.deliver({ sender: this.replicaId, message }));
  }

  subscribe<Type extends ReplicaMessage["type"]>(type: Type, handler: MessageHandler<Type>): Disposable {
    return this.#subscriptions.add(type, handler);
  }

  async peers(): Promise<readonly string[]> {
    return [];
  }

  async replicas(): Promise<readonly ReplicaInfo[]> {
    const { replicaId: id } = this;
    return [{ id, version: this.#version, startedAt: this.#startedAt, seenAt: Date.now(), isAlive: true }];
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
