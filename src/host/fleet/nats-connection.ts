// The connection to NATS, which control planes and executors share. It reconnects by itself; messages that are
// published meanwhile wait for it, up to a limit.
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import type { NatsConnection } from "@nats-io/transport-node";
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type FleetEvent, toShownUrls, withoutUser } from "./fleet-events.ts";
import { importNats, isDenial } from "./nats-library.ts";
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
  /** Largest payload of one message in bytes, as the NATS server says. It can change with each connection. */
  readonly maxPayload: number;
  /** The executor whose credentials are used; undefined for a control plane, and without credentials. */
  readonly executor: ExecutorIdentity | undefined;
  /** For how long the connection has been lost, in ms; 0 while there is one, and Infinity before the first one. */
  readonly outageMs: number;
  /** Resolves when the first connection has been made. Never rejects. */
  readonly opened: Promise<void>;
  /** @param reply subject to which the NATS server reports that no client subscribes */
  publish(subject: string, payload: Uint8Array, reply?: string): void;
  /** Returns a function that ends the subscription. */
  subscribe(subject: string, onMessage: (message: FleetMessage) => void): () => void;
  /** Waits until NATS has received what was published. Never rejects: an interrupted connection ends the wait. */
  flush(): Promise<void>;
  /**
   * The connection of the client library, for JetStream; undefined before the first one. `natsOf` types it: the library's types are those of an
   * optional package.
   */
  readonly nats: object | undefined;
}

export interface FleetConnectionOptions {
  readonly urls: readonly string[];
  /** Path of a credentials file. Without one, the client does not authenticate. */
  readonly credentials: string | undefined;
  /** Path of the certificates that sign the server's, in PEM format. */
  readonly tlsCa?: string | undefined;
  /** Whether the credentials must be those of an executor. */
  readonly role: "control-plane" | "executor";
  /** Receives failures of the first connection, once for each reason, and each loss and return of the connection. */
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
/** Time in ms for which a control plane waits for its first attempt, which goes on afterwards. A network that loses packets gives no answer. */
const FIRST_WAIT_MS = 5_000;
const RETRY_MS = 500;
/** Different reasons of failed first connections that are reported. */
const MAX_REASONS = 16;
/** Payload that a NATS server accepts by default, in bytes: used until it has said its own limit. */
const DEFAULT_MAX_PAYLOAD = 1024 * 1024;
const PING_MS = 5_000;
const RECONNECT_MS = 250;
/** Maximum number of bytes that wait for a connection. The oldest messages are dropped first; their calls then end as lost. */
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
 * Connects to NATS. A control plane waits for its first attempt only, and is connected in the background if NATS does not answer: most of a
 * server works without it. An executor has nothing to do until then, and waits.
 * @throws {ToolError} PARAM_INVALID, as a rejection, for wrong credentials or a missing package
 */
export async function connectFleet(options: FleetConnectionOptions): Promise<FleetConnection> {
  const { connect, nkeyAuthenticator } = await importNats();
  const { urls, credentials: path, role, tlsCa, onEvent = () => {} } = options;
  const credentials = path === undefined ? undefined : await readCredentials(path, role);
  const executor = credentials?.role === "executor" ? credentials : undefined;
  const open = (): Promise<NatsConnection> =>
    connect({
      servers: [...urls],
      name: executor === undefined ? "glovebox control plane" : `glovebox executor ${executor.id}`,
      timeout: CONNECT_TIMEOUT_MS,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_MS,
      // A control plane must survive credentials that are denied for a while, for example by one server of a cluster with an older users file.
      // An executor that is denied was revoked, and ends.
      ignoreAuthErrorAbort: role === "control-plane",
      pingInterval: PING_MS,
      maxPingOut: 3,
      inboxPrefix: CONTROL_INBOX,
      ...(credentials === undefined
        ? {}
        : { authenticator: nkeyAuthenticator(new TextEncoder().encode(credentials.seed)) }),
      ...(tlsCa === undefined ? {} : { tls: { caFile: tlsCa } }),
    });
  const server = `the NATS server at ${toShownUrls(urls)}`;
  const connection = new NatsFleetConnection({
    executor: executor === undefined ? undefined : { id: executor.id, pool: executor.pool },
    onClosed: options.onClosed,
    onDenied: () =>
      onEvent({
        type: "nats-denied",
        message: `${capitalize(server)} rejects the credentials${role === "control-plane" ? "; trying again" : ""}`,
      }),
    onLost: () => onEvent({ type: "nats-lost", message: `The connection to ${server} was lost; trying again` }),
    onBack: () => onEvent({ type: "nats-connected", message: `The connection to ${server} is back` }),
    onOpened: () => onEvent({ type: "nats-connected", message: `The connection to ${server} is made` }),
  });
  const reasons = new Set<string>();
  const onFailed = (why: string): void => {
    if (reasons.has(why) || reasons.size >= MAX_REASONS) return;
    reasons.add(why);
    onEvent({ type: "nats-unreachable", message: `Cannot reach ${server}: ${why}; trying again` });
  };
  await connection.open(open, role === "control-plane", onFailed);
  return connection;
}

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

interface NatsFleetConnectionOptions {
  readonly executor: ExecutorIdentity | undefined;
  readonly onClosed: FleetConnectionOptions["onClosed"];
  readonly onDenied: () => void;
  readonly onLost: () => void;
  readonly onBack: () => void;
  /** The first connection was made after a failed attempt. */
  readonly onOpened: () => void;
}

interface Subscribed {
  readonly subject: string;
  readonly onMessage: (message: FleetMessage) => void;
  end: () => void;
}

class NatsFleetConnection implements FleetConnection {
  readonly executor: ExecutorIdentity | undefined;
  readonly opened: Promise<void>;
  readonly #options: NatsFleetConnectionOptions;
  readonly #setOpened: () => void;
  readonly #subscribed = new Set<Subscribed>();
  #nats: NatsConnection | undefined;
  /** When the connection was lost, by performance.now(); undefined while there is one. */
  #lostAt: number | undefined = Number.NEGATIVE_INFINITY;
  /** Whether it was reported that the server denies the credentials. */
  #isDenied = false;
  #isClosed = false;
  #waiting: { readonly subject: string; readonly payload: Uint8Array; readonly reply: string | undefined }[] = [];
  #waitingBytes = 0;

  constructor(options: NatsFleetConnectionOptions) {
    this.#options = options;
    this.executor = options.executor;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#setOpened = resolve;
  }

  /**
   * Makes the first connection.
   * @param isInBackground whether only the first attempt is awaited
   * @param onFailed called after each failed attempt that is followed by another one
   * @throws {ToolError} PARAM_INVALID, as a rejection, if the credentials are denied at an attempt that is awaited
   */
  async open(
    connect: () => Promise<NatsConnection>,
    isInBackground: boolean,
    onFailed: (why: string) => void,
  ): Promise<void> {
    let isAwaited = true;
    const tryOnce = async (): Promise<boolean> => {
      try {
        this.#attach(await connect(), isAwaited);
        return true;
      } catch (cause) {
        const why = cause instanceof Error ? withoutUser(cause.message) : "unknown error";
        if (isAwaited && isDenial(cause))
          throw new ToolError("PARAM_INVALID", `The connection to NATS failed: ${why}`, { cause });
        onFailed(why);
        return false;
      }
    };
    const retry = async (): Promise<void> => {
      do await setTimeout(RETRY_MS, undefined, { ref: !isInBackground });
      while (!this.#isClosed && !(await tryOnce()));
    };
    const first = tryOnce();
    if (!isInBackground) {
      if (!(await first)) await retry();
      return;
    }
    const wait = new AbortController();
    const late = setTimeout(FIRST_WAIT_MS, "late" as const, wait);
    const outcome = await Promise.race([first, late]).finally(() => wait.abort());
    isAwaited = false;
    if (outcome === "late") onFailed(`no answer within ${FIRST_WAIT_MS} ms`);
    if (outcome !== true) void first.then((isConnected) => (isConnected ? undefined : retry()));
  }

  #attach(nats: NatsConnection, isFirstAttempt: boolean): void {
    if (this.#isClosed) {
      void nats.close();
      return;
    }
    this.#nats = nats;
    void this.#followStatus(nats);
    void nats.closed().then((error) => {
      if (!this.#isClosed) this.#lostAt ??= performance.now();
      this.#options.onClosed?.(error instanceof Error ? error : undefined);
    });
    this.#lostAt = undefined;
    for (const one of this.#subscribed) this.#begin(one, nats);
    if (!isFirstAttempt) this.#options.onOpened();
    this.#publishWaiting();
    this.#setOpened();
  }

  async #followStatus(nats: NatsConnection): Promise<void> {
    for await (const status of nats.status()) {
      if (status.type === "disconnect") this.#onDisconnected(nats);
      else if (status.type === "reconnect") this.#onConnected();
      else if (status.type === "error" && isDenial(status.error)) this.#onDenied();
    }
  }

  get nats(): NatsConnection | undefined {
    return this.#nats;
  }

  get maxPayload(): number {
    return this.#nats?.info?.max_payload ?? DEFAULT_MAX_PAYLOAD;
  }

  get outageMs(): number {
    return this.#lostAt === undefined ? 0 : Math.max(1, performance.now() - this.#lostAt);
  }

  get #isConnected(): boolean {
    return this.#lostAt === undefined;
  }

  /** The connection of the library, unless it is closed or about to be. */
  get #usable(): NatsConnection | undefined {
    return this.#nats?.isClosed() || this.#nats?.isDraining() ? undefined : this.#nats;
  }

  #onDisconnected(nats: NatsConnection): void {
    if (!this.#isConnected || nats.isClosed() || nats.isDraining()) return;
    this.#lostAt = performance.now();
    this.#options.onLost();
  }

  /** The library tries again for a control plane, and closes the connection of an executor. */
  #onDenied(): void {
    if (this.#isDenied || this.#isClosed) return;
    this.#isDenied = true;
    this.#options.onDenied();
  }

  #onConnected(): void {
    if (this.#isConnected) return;
    this.#lostAt = undefined;
    this.#isDenied = false;
    this.#options.onBack();
    this.#publishWaiting();
  }

  #publishWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const { subject, payload, reply } of waiting) this.publish(subject, payload, reply);
  }

  publish(subject: string, payload: Uint8Array, reply?: string): void {
    if (this.#isClosed || (this.#nats !== undefined && this.#usable === undefined)) return;
    if (this.#isConnected) {
      this.#usable?.publish(subject, payload, reply === undefined ? undefined : { reply });
      return;
    }
    this.#waiting.push({ subject, payload, reply });
    this.#waitingBytes += payload.byteLength;
    while (this.#waitingBytes > MAX_WAITING_BYTES) this.#waitingBytes -= this.#waiting.shift()?.payload.byteLength ?? 0;
  }

  subscribe(subject: string, onMessage: (message: FleetMessage) => void): () => void {
    const subscribed: Subscribed = { subject, onMessage, end: () => {} };
    this.#subscribed.add(subscribed);
    if (this.#nats !== undefined) this.#begin(subscribed, this.#nats);
    return () => {
      this.#subscribed.delete(subscribed);
      subscribed.end();
    };
  }

  #begin(subscribed: Subscribed, nats: NatsConnection): void {
    const subscription = nats.subscribe(subscribed.subject, {
      callback: (error, message) => {
        if (error === null) subscribed.onMessage(toFleetMessage(message));
      },
    });
    subscribed.end = () => subscription.unsubscribe();
  }

  async flush(): Promise<void> {
    if (this.#isConnected) await this.#usable?.flush().catch(() => undefined);
  }

  /** Sends what waits, and closes the connection. Calling it twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    await this.flush();
    this.#isClosed = true;
    await this.#nats?.close();
  }
}

function toFleetMessage({ subject, data, headers }: import("@nats-io/transport-node").Msg): FleetMessage {
  const code = headers?.code ?? 0;
  return { subject, data, hasHeaders: headers !== undefined, status: code === 0 ? undefined : code };
}
