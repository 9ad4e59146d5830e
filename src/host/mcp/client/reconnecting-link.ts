// Manages the connection to an upstream server for one tenant or for all: connects on demand, reconnects with a growing delay, and lists the
// tools again when their list has expired.
import { setTimeout as pause } from "node:timers/promises";
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { untilAborted } from "../../util/with-abort.ts";
import type { TenantCredentials } from "./credentials.ts";
import type { Listing } from "./listing.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import type { ServerDiagnostics } from "./server-diagnostics.ts";
import { StaleConnection } from "./upstream-call.ts";
import type { UpstreamConnection } from "./upstream-connection.ts";

/** A connection that was open for less time, and did not complete a call, counts as a consecutive failure. */
const STABLE_MS = 10_000;
/** Delay before a connection after two consecutive failures. Each further failure doubles it. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 30_000;
/** Longest delay that a call waits for. If it is longer, the call fails at once. */
const MAX_WAIT_MS = 1_000;
/** Lifetime of a listing for which the server gives no TTL and sends no change notifications. */
const DEFAULT_TTL_MS = 60_000;
/** Shortest time between two listings, whatever TTL and notifications a server sends. */
const MIN_TTL_MS = 1_000;

export interface LinkDependencies {
  readonly server: string;
  readonly config: McpServerConfig;
  readonly environment: NodeJS.ProcessEnv;
  readonly version: string;
  /** Returns the credentials of a connection. Called before each connection. */
  readonly credentials: (signal: AbortSignal) => Promise<TenantCredentials>;
  /** Called with each new list of tools. The link waits for it. */
  readonly onListed: (listing: Listing) => Promise<void>;
}

/** Status of the connection that a link manages. */
export interface LinkStatus {
  /** `waiting`: the connection failed several times, and the next attempt is delayed. */
  readonly state: "idle" | "connecting" | "connected" | "waiting" | "closed";
  readonly protocolVersion?: string | undefined;
  /** Name and version that the server reports. Untrusted text. */
  readonly serverInfo?: { readonly name: string; readonly version: string } | undefined;
  readonly pid?: number | undefined;
  /** Number of connections that were established so far. */
  readonly connections: number;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** The latest error, and its time in ms since 1970. */
  readonly lastError?: { readonly message: string; readonly at: number } | undefined;
  /** Diagnostics of the latest process, if the server is a program. */
  readonly diagnostics?: ServerDiagnostics | undefined;
}

export class ReconnectingLink implements AsyncDisposable {
  readonly #dependencies: LinkDependencies;
  #connection: UpstreamConnection | undefined;
  #connecting: Promise<UpstreamConnection> | undefined;
  #listing: Promise<void> | undefined;
  /** End of the listing's lifetime, on the clock of `performance.now()`. */
  #freshUntil = Number.NEGATIVE_INFINITY;
  #listedAt = Number.NEGATIVE_INFINITY;
  #isListed = false;
  #refresh: NodeJS.Timeout | undefined;
  #failures = 0;
  #retryAt = 0;
  #connections = 0;
  #lastError: LinkStatus["lastError"];
  #diagnostics: (() => ServerDiagnostics) | undefined;
  readonly #closing = new AbortController();
  /** Number of requests in progress per connection. A replaced connection is closed when its last request ends. */
  readonly #users = new Map<UpstreamConnection, number>();
  /** Failed and replaced connections that are still being closed. */
  readonly #discarded = new Set<Promise<void>>();
  usedAt: number = performance.now();

  constructor(dependencies: LinkDependencies) {
    this.#dependencies = dependencies;
  }

  get isBusy(): boolean {
    return this.#users.size > 0 || this.#connecting !== undefined || this.#listing !== undefined;
  }

  /** Aborts when the link is disposed. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  get status(): LinkStatus {
    const connection = this.#connection;
    const { protocolVersion, serverInfo, pid } = connection ?? {};
    return {
      state: this.#state,
      ...(protocolVersion === undefined ? {} : { protocolVersion }),
      ...(serverInfo === undefined ? {} : { serverInfo }),
      ...(pid === undefined ? {} : { pid }),
      connections: this.#connections,
      failures: this.#failures,
      ...(this.#lastError === undefined ? {} : { lastError: this.#lastError }),
      ...(this.#diagnostics === undefined ? {} : { diagnostics: this.#diagnostics() }),
    };
  }

  get #state(): LinkStatus["state"] {
    if (this.#closing.signal.aborted) return "closed";
    if (this.#connection?.isOpen === true) return "connected";
    if (this.#connecting !== undefined) return "connecting";
    return performance.now() < this.#retryAt ? "waiting" : "idle";
  }

  /** Returns the open connection, or opens a new one. */
  async #connect(signal: AbortSignal): Promise<UpstreamConnection> {
    this.#closing.signal.throwIfAborted();
    this.usedAt = performance.now();
    if (this.#connection?.isOpen === true) return this.#connection;
    const { server } = this.#dependencies;
    const waitMs = this.#retryAt - performance.now();
    if (this.#connecting === undefined && waitMs > MAX_WAIT_MS) {
      const message = `The MCP server "${server}" is unavailable: connecting failed ${this.#failures} times in a row`;
      const details = { server, retryAfterMs: Math.ceil(waitMs) };
      throw unavailable("upstream_unavailable", message, { details });
    }
    this.#connecting ??= this.#open(waitMs).finally(() => {
      this.#connecting = undefined;
    });
    return await untilAborted(this.#connecting, signal);
  }

  async #open(waitMs: number): Promise<UpstreamConnection> {
    if (waitMs > 0) await pause(waitMs, undefined, { signal: this.#closing.signal }).catch(() => {});
    const { server, config, environment, version, credentials } = this.#dependencies;
    try {
      const { UpstreamConnection } = await import("./upstream-connection.ts");
      this.#closing.signal.throwIfAborted();
      const own = await readCredentials(credentials, server, this.#closing.signal);
      const connection = await UpstreamConnection.open({
        server,
        config,
        environment,
        version,
        credentials: own,
        signal: this.#closing.signal,
        onDiscarded: (closing) => this.#discard(closing),
        onToolsChanged: () => this.#scheduleListing(),
        onAnswered: () => {
          this.#failures = 0;
        },
        onClosed: () => this.#handleLoss(connection),
        onDiagnostics: (read) => {
          this.#diagnostics = read;
        },
      });
      if (this.#closing.signal.aborted) {
        this.#discard(connection[Symbol.asyncDispose]());
        this.#closing.signal.throwIfAborted();
      }
      this.#connection = connection;
      this.#connections += 1;
      // A new process can have other tools.
      if (this.#isListed) this.#scheduleListing();
      return connection;
    } catch (thrown) {
      this.#recordFailure(Error.isError(thrown) ? thrown.message : "Connecting failed");
      throw thrown;
    }
  }

  #discard(closing: Promise<void>): void {
    this.#discarded.add(closing);
    void closing.finally(() => this.#discarded.delete(closing));
  }

  #recordFailure(message: string): void {
    this.#failures += 1;
    const delayMs = this.#failures < 2 ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (this.#failures - 2));
    this.#retryAt = performance.now() + delayMs;
    this.#lastError = { message, at: Date.now() };
  }

  #handleLoss(connection: UpstreamConnection): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    if (performance.now() - connection.openedAt >= STABLE_MS) this.#failures = 0;
    this.#recordFailure("The connection was lost");
  }

  /**
   * Sends a request on an open connection. If the server no longer accepts that connection, sends it once more on a new one.
   * @throws {ToolError} as a rejection: TOOL_UNAVAILABLE, or the error of `request`. If the signal aborts, rejects with its reason.
   */
  async use<Answer>(
    signal: AbortSignal,
    request: (connection: UpstreamConnection) => Promise<Answer>,
  ): Promise<Answer> {
    const connection = await this.#connect(signal);
    try {
      return await this.#request(connection, request);
    } catch (thrown) {
      if (!(thrown instanceof StaleConnection)) throw thrown;
    }
    try {
      return await this.#request(await this.#connect(signal), request);
    } catch (thrown) {
      if (!(thrown instanceof StaleConnection)) throw thrown;
      const { server } = this.#dependencies;
      const message = `The MCP server "${server}" rejected a new connection right after accepting it`;
      this.#lastError = { message, at: Date.now() };
      throw unavailable("upstream_unavailable", message, { cause: thrown, details: { server } });
    }
  }

  async #request<Answer>(
    connection: UpstreamConnection,
    request: (connection: UpstreamConnection) => Promise<Answer>,
  ): Promise<Answer> {
    this.#users.set(connection, (this.#users.get(connection) ?? 0) + 1);
    try {
      return await request(connection);
    } catch (thrown) {
      if (thrown instanceof StaleConnection && this.#connection === connection) this.#connection = undefined;
      throw thrown;
    } finally {
      const left = (this.#users.get(connection) ?? 1) - 1;
      if (left > 0) this.#users.set(connection, left);
      else {
        this.#users.delete(connection);
        if (connection !== this.#connection) this.#discard(connection[Symbol.asyncDispose]());
      }
    }
  }

  /** Lists the tools again, unless that was just done. Called when a tool is no longer as it was listed. */
  async relist(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#listedAt >= MIN_TTL_MS) await this.list(signal);
  }

  /** Marks the listing as outdated and schedules the next one, at the earliest `MIN_TTL_MS` after the last. */
  #scheduleListing(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
    if (this.#closing.signal.aborted || this.#refresh !== undefined || !this.#isListed) return;
    const delayMs = Math.max(0, this.#listedAt + MIN_TTL_MS - performance.now());
    this.#refresh = setTimeout(() => {
      this.#refresh = undefined;
      // No caller waits for this listing. If the error persists, the next caller receives it.
      this.list(this.#closing.signal).catch(() => {});
    }, delayMs).unref();
  }

  /** Whether the latest listing is still valid. */
  get isFresh(): boolean {
    return this.#isListed && performance.now() < this.#freshUntil;
  }

  /**
   * Lists the server's tools. Concurrent callers share one listing.
   * @throws {ToolError} TOOL_UNAVAILABLE, as a rejection. If the signal aborts, rejects with its reason.
   */
  async list(signal: AbortSignal): Promise<void> {
    this.#closing.signal.throwIfAborted();
    this.#listing ??= this.#list().finally(() => {
      this.#listing = undefined;
    });
    await untilAborted(this.#listing, signal);
  }

  async #list(): Promise<void> {
    try {
      // Not bound to the signal of one caller, because several may wait. Connecting and listing have their own timeouts.
      await this.use(this.#closing.signal, (connection) => this.#listOn(connection));
    } catch (thrown) {
      this.#freshUntil = Number.NEGATIVE_INFINITY;
      throw thrown;
    }
  }

  async #listOn(connection: UpstreamConnection): Promise<void> {
    const begun = performance.now();
    this.#freshUntil = Number.POSITIVE_INFINITY;
    const listing = await connection.listTools().catch((thrown: unknown) => {
      // If the connection was lost, that error has already been recorded.
      const isNew = thrown instanceof ToolError && connection.isOpen;
      if (isNew) this.#lastError = { message: thrown.message, at: Date.now() };
      throw thrown;
    });
    await this.#dependencies.onListed(listing);
    this.#isListed = true;
    this.#listedAt = performance.now();
    // The server reported a change during the listing.
    if (this.#freshUntil !== Number.POSITIVE_INFINITY) return this.#scheduleListing();
    const ttlMs = listing.ttlMs ?? (connection.notifiesOfChanges ? Number.POSITIVE_INFINITY : DEFAULT_TTL_MS);
    this.#freshUntil = begun + Math.max(MIN_TTL_MS, ttlMs);
  }

  /** Closes all connections, in bounded time. A second call has no effect. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(unavailable("not_found", `The MCP server "${this.#dependencies.server}" was removed`));
    clearTimeout(this.#refresh);
    this.#refresh = undefined;
    const open = [this.#connection, ...this.#users.keys()].filter((connection) => connection !== undefined);
    this.#connection = undefined;
    await Promise.all([...open.map((each) => each[Symbol.asyncDispose]()), this.#connecting?.catch(() => undefined)]);
    await Promise.all(this.#discarded);
  }
}

async function readCredentials(
  credentials: LinkDependencies["credentials"],
  server: string,
  signal: AbortSignal,
): Promise<TenantCredentials> {
  try {
    return await credentials(signal);
  } catch (cause) {
    const options = { cause, details: { server } };
    throw unavailable("upstream_unavailable", `No credentials are available for the MCP server "${server}"`, options);
  }
}
