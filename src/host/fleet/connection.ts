// The connection to NATS, which control planes and executors share. It reconnects by itself; messages that are
// published meanwhile wait for it, up to a limit.
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import type { NatsConnection } from "@nats-io/transport-node";
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type FleetEvent, toShownUrls, withoutUser } from "./fleet-events.ts";
import { importNats } from "./nats-library.ts";
import { DEFAULT_POOL, PoolSchema } from "./protocol/pool-name.ts";
import { CONTROL_INBOX, type ExecutorIdentity, FLEET_ID_PATTERN } from "./protocol/subjects.ts";

/** A received message. */
export interface FleetMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  /** Status of a response of the NATS server itself: 404, or 503 if a subject has no subscriber. */
  readonly status: number | undefined;
  /** Whether it has headers. Messages of control planes and executors have none, stored messages that NATS delivers do. */
  readonly hasHeaders: boolean;
}

export interface FleetConnection extends AsyncDisposable {
  /** Largest payload of one message in bytes. */
  readonly maxPayload: number;
  /** The executor whose credentials are used; undefined for a control plane, and without credentials. */
  readonly executor: ExecutorIdentity | undefined;
  /** For how long the connection has been lost, in ms; 0 while there is one. */
  readonly outageMs: number;
  /** @param reply subject to which the NATS server reports that no client subscribes */
  publish(subject: string, payload: Uint8Array, reply?: string): void;
  /** Returns a function that ends the subscription. */
  subscribe(subject: string, onMessage: (message: FleetMessage) => void): () => void;
  /** Waits until NATS has received what was published. Never rejects: an interrupted connection ends the wait. */
  flush(): Promise<void>;
  /** The connection of the client library, for JetStream. `natsOf` types it: the library's types are those of an optional package. */
  readonly nats: object;
}

export interface FleetConnectionOptions {
  readonly urls: readonly string[];
  /** Path of a credentials file. Without one, the client does not authenticate. */
  readonly credentials: string | undefined;
  /** Path of the certificates that sign the server's, in PEM format. */
  readonly tlsCa?: string | undefined;
  /** Whether the credentials must be those of an executor. */
  readonly role: "control-plane" | "executor";
  /** Receives failures of the first connection, once, and each loss and return of the connection. */
  readonly onEvent?: ((event: FleetEvent) => void) | undefined;
  /** Called when the connection has ended for good. */
  readonly onClosed?: ((error: Error | undefined) => void) | undefined;
}

/** Content of a credentials file. `seed` is a secret: the private nkey of a NATS user. */
export const FleetCredentialsSchema = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("control-plane"), seed: z.string().regex(/^SU[A-Z2-7]{56}$/) }),
  z.strictObject({
    role: z.literal("executor"),
    id: z.string().regex(FLEET_ID_PATTERN),
    /** Default: the pool of files that older releases wrote. */
    pool: PoolSchema.default(DEFAULT_POOL),
    seed: z.string().regex(/^SU[A-Z2-7]{56}$/),
  }),
]);
export type FleetCredentials = z.infer<typeof FleetCredentialsSchema>;

const CONNECT_TIMEOUT_MS = 20_000;
/** Time in ms for which the first connection is retried: NATS may start at the same time, or its machine may be busy. */
const FIRST_CONNECTION_MS = 60_000;
const RETRY_MS = 500;
const PING_MS = 5_000;
const RECONNECT_MS = 250;
/** Most bytes that wait for a connection. The oldest messages are dropped first; their calls then end as lost. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/**
 * Reads a credentials file.
 * @throws {ToolError} PARAM_INVALID, as a rejection
 */
export async function readCredentials(path: string, role: FleetCredentials["role"]): Promise<FleetCredentials> {
  const fail = (problem: string, cause?: unknown): ToolError =>
    new ToolError("PARAM_INVALID", `The credentials file ${problem}`, { cause });
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw fail(`cannot be read (${String((cause as NodeJS.ErrnoException).code)})`, cause);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw fail("is not JSON");
  }
  const { success, data } = FleetCredentialsSchema.safeParse(value);
  if (!success) throw fail('is not valid. "glovebox executor credentials" creates such files');
  if (data.role !== role) throw fail(`is for the role "${data.role}", not "${role}"`);
  return data;
}

/**
 * Connects to NATS.
 * @throws {ToolError} PARAM_INVALID, as a rejection, for wrong credentials, a missing package, or if no server answers
 */
export async function connectFleet(options: FleetConnectionOptions): Promise<FleetConnection> {
  const { connect, nkeyAuthenticator } = await importNats();
  const { urls, credentials: path, role, tlsCa } = options;
  const credentials = path === undefined ? undefined : await readCredentials(path, role);
  const executor = credentials?.role === "executor" ? credentials : undefined;
  const open = (): Promise<NatsConnection> =>
    connect({
      servers: [...urls],
      name: executor === undefined ? "glovebox control plane" : `glovebox executor ${executor.id}`,
      timeout: CONNECT_TIMEOUT_MS,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_MS,
      pingInterval: PING_MS,
      maxPingOut: 3,
      inboxPrefix: CONTROL_INBOX,
      ...(credentials === undefined
        ? {}
        : { authenticator: nkeyAuthenticator(new TextEncoder().encode(credentials.seed)) }),
      ...(tlsCa === undefined ? {} : { tls: { caFile: tlsCa } }),
    });
  const identity = executor === undefined ? undefined : { id: executor.id, pool: executor.pool };
  const server = `the NATS server at ${toShownUrls(urls)}`;
  const onEvent = options.onEvent ?? (() => {});
  const nats = await connectWithRetries(open, (why) =>
    onEvent({ type: "nats-unreachable", message: `Cannot reach ${server}: ${why}; trying again` }),
  );
  return new NatsFleetConnection(nats, {
    executor: identity,
    onClosed: options.onClosed,
    onLost: () => onEvent({ type: "nats-lost", message: `The connection to ${server} was lost; trying again` }),
    onBack: () => onEvent({ type: "nats-connected", message: `The connection to ${server} is back` }),
  });
}

/**
 * @param onFailed called after the first failed attempt
 * @throws {ToolError} PARAM_INVALID, as a rejection
 */
async function connectWithRetries(
  open: () => Promise<NatsConnection>,
  onFailed: (why: string) => void,
): Promise<NatsConnection> {
  const until = performance.now() + FIRST_CONNECTION_MS;
  let hasFailed = false;
  for (;;) {
    try {
      return await open();
    } catch (cause) {
      const why = cause instanceof Error ? withoutUser(cause.message) : "unknown error";
      const isDenied = /authorization violation/i.test(why);
      if (isDenied || performance.now() > until)
        throw new ToolError("PARAM_INVALID", `The connection to NATS failed: ${why}`, { cause });
      if (!hasFailed) onFailed(why);
      hasFailed = true;
      await setTimeout(RETRY_MS);
    }
  }
}

interface NatsFleetConnectionOptions {
  readonly executor: ExecutorIdentity | undefined;
  readonly onClosed: FleetConnectionOptions["onClosed"];
  readonly onLost: () => void;
  readonly onBack: () => void;
}

class NatsFleetConnection implements FleetConnection {
  readonly nats: NatsConnection;
  readonly executor: ExecutorIdentity | undefined;
  readonly maxPayload: number;
  readonly #options: NatsFleetConnectionOptions;
  /** When the connection was lost, by performance.now(); undefined while there is one. */
  #lostAt: number | undefined;
  #waiting: { readonly subject: string; readonly payload: Uint8Array; readonly reply: string | undefined }[] = [];
  #waitingBytes = 0;

  constructor(nats: NatsConnection, options: NatsFleetConnectionOptions) {
    this.nats = nats;
    this.#options = options;
    this.executor = options.executor;
    this.maxPayload = nats.info?.max_payload ?? 1024 * 1024;
    void this.#followStatus();
    void nats.closed().then((error) => options.onClosed?.(error instanceof Error ? error : undefined));
  }

  async #followStatus(): Promise<void> {
    for await (const { type } of this.nats.status()) {
      if (type === "disconnect") this.#onDisconnected();
      if (type === "reconnect") this.#onConnected();
    }
  }

  get outageMs(): number {
    return this.#lostAt === undefined ? 0 : Math.max(1, performance.now() - this.#lostAt);
  }

  get #isConnected(): boolean {
    return this.#lostAt === undefined;
  }

  #onDisconnected(): void {
    if (!this.#isConnected || this.nats.isClosed() || this.nats.isDraining()) return;
    this.#lostAt = performance.now();
    this.#options.onLost();
  }

  #onConnected(): void {
    if (this.#isConnected) return;
    this.#lostAt = undefined;
    this.#options.onBack();
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const { subject, payload, reply } of waiting) this.publish(subject, payload, reply);
  }

  publish(subject: string, payload: Uint8Array, reply?: string): void {
    if (this.nats.isClosed() || this.nats.isDraining()) return;
    if (this.#isConnected) {
      this.nats.publish(subject, payload, reply === undefined ? undefined : { reply });
      return;
    }
    this.#waiting.push({ subject, payload, reply });
    this.#waitingBytes += payload.byteLength;
    while (this.#waitingBytes > MAX_WAITING_BYTES) this.#waitingBytes -= this.#waiting.shift()?.payload.byteLength ?? 0;
  }

  subscribe(subject: string, onMessage: (message: FleetMessage) => void): () => void {
    const subscription = this.nats.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) onMessage(toFleetMessage(message));
      },
    });
    return () => subscription.unsubscribe();
  }

  async flush(): Promise<void> {
    if (!this.#isConnected || this.nats.isClosed() || this.nats.isDraining()) return;
    await this.nats.flush().catch(() => undefined);
  }

  /** Sends what waits, and closes the connection. Calling it twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.nats.isClosed()) return;
    await this.flush();
    await this.nats.close();
  }
}

function toFleetMessage({ subject, data, headers }: import("@nats-io/transport-node").Msg): FleetMessage {
  const code = headers?.code ?? 0;
  return { subject, data, hasHeaders: headers !== undefined, status: code === 0 ? undefined : code };
}
