// The way to one upstream server, for one tenant or for all: a connection when one is needed, another when it is lost, and what the server
// said last of its tools.
import { setTimeout as pause } from "node:timers/promises";
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { untilAborted } from "../../util/with-abort.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { Credentials } from "./credentials.ts";
import type { Listing } from "./listing.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import type { ServerDiagnostics } from "./server-diagnostics.ts";
import { StaleConnection } from "./upstream-call.ts";

/** A connection that lasts less, and has answered no call, is one more failure in a row. */
const STEADY_MS = 10_000;
/** After the second failure in a row; each one more doubles it. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 30_000;
/** A shorter delay is waited for, a longer one is told. */
const MAX_WAIT_MS = 1_000;
/** A listing that the server does not say how long it holds: until it tells of a change, or so long where it never does. */
const DEFAULT_TTL_MS = 60_000;
/** No listing is asked for again sooner, whatever a server says, and however often it does. */
const MIN_TTL_MS = 1_000;

export interface LinkParts {
  readonly server: string;
  readonly config: McpServerConfig;
  readonly environment: NodeJS.ProcessEnv;
  readonly version: string;
  /** Asked before each connection. */
  readonly credentials: (signal: AbortSignal) => Promise<Credentials>;
  /** Takes the tools over, whenever they have been listed; may take its time. */
  readonly onListed: (listing: Listing) => Promise<void>;
}

export interface LinkStatus {
  readonly state: "idle" | "connecting" | "connected" | "waiting" | "closed";
  readonly protocolVersion?: string | undefined;
  /** The server's own word. */
  readonly serverInfo?: { readonly name: string; readonly version: string } | undefined;
  readonly pid?: number | undefined;
  /** How often it has been connected. */
  readonly connections: number;
  /** In a row. */
  readonly failures: number;
  readonly lastError?: { readonly message: string; readonly at: number } | undefined;
  /** Of the process that was started last, where the server is a program. */
  readonly diagnostics?: ServerDiagnostics | undefined;
}

export class UpstreamLink implements AsyncDisposable {
  readonly #parts: LinkParts;
  #connection: UpstreamConnection | undefined;
  #connecting: Promise<UpstreamConnection> | undefined;
  #listing: Promise<void> | undefined;
  /** By performance.now(). */
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
  /** How many wait for something of a connection. One that is not ours any more is closed with the last of them. */
  readonly #users = new Map<UpstreamConnection, number>();
  /** Connections that came to nothing, or are of no use any more, until nothing is left of them. */
  readonly #discarded = new Set<Promise<void>>();
  usedAt: number = performance.now();

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  get isBusy(): boolean {
    return this.#users.size > 0 || this.#connecting !== undefined || this.#listing !== undefined;
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

  /** An open connection: the one there is, or a new one. */
  async #connect(signal: AbortSignal): Promise<UpstreamConnection> {
    this.#closing.signal.throwIfAborted();
    this.usedAt = performance.now();
    if (this.#connection?.isOpen === true) return this.#connection;
    const { server } = this.#parts;
    const waitMs = this.#retryAt - performance.now();
    if (this.#connecting === undefined && waitMs > MAX_WAIT_MS) {
      const message = `The MCP server ${server} is not connected for now: that failed ${this.#failures} times in a row`;
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
    const { server, config, environment, version, credentials } = this.#parts;
    try {
      const { UpstreamConnection } = await import("./connection.ts");
      this.#closing.signal.throwIfAborted();
      const given = await askForCredentials(credentials, server, this.#closing.signal);
      const connection = await UpstreamConnection.open({
        ...{ server, config, environment, version, credentials: given },
        signal: this.#closing.signal,
        onDiscarded: (closing) => this.#discard(closing),
        onToolsChanged: () => this.#changed(),
        onAnswered: () => {
          this.#failures = 0;
        },
        onClosed: () => this.#lost(connection),
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
      // Another process may have other tools.
      if (this.#isListed) this.#changed();
      return connection;
    } catch (thrown) {
      this.#failed(Error.isError(thrown) ? thrown.message : "It could not be connected");
      throw thrown;
    }
  }

  #discard(closing: Promise<void>): void {
    this.#discarded.add(closing);
    void closing.finally(() => this.#discarded.delete(closing));
  }

  #failed(message: string): void {
    this.#failures += 1;
    const delayMs = this.#failures < 2 ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (this.#failures - 2));
    this.#retryAt = performance.now() + delayMs;
    this.#lastError = { message, at: Date.now() };
  }

  #lost(connection: UpstreamConnection): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    if (performance.now() - connection.openedAt >= STEADY_MS) this.#failures = 0;
    this.#failed("The connection was lost");
  }

  /**
   * Asks by an open connection, and once more by a new one where the server knows the first no longer.
   * @throws {ToolError} as a rejection: TOOL_UNAVAILABLE, or what `ask` throws; the signal's reason where that aborts
   */
  async use<Answer>(signal: AbortSignal, ask: (connection: UpstreamConnection) => Promise<Answer>): Promise<Answer> {
    const connection = await this.#connect(signal);
    try {
      return await this.#ask(connection, ask);
    } catch (thrown) {
      if (!(thrown instanceof StaleConnection)) throw thrown;
    }
    try {
      return await this.#ask(await this.#connect(signal), ask);
    } catch (thrown) {
      if (!(thrown instanceof StaleConnection)) throw thrown;
      const { server } = this.#parts;
      const message = `The MCP server ${server} refuses what it has just agreed to`;
      this.#lastError = { message, at: Date.now() };
      throw unavailable("upstream_unavailable", message, { cause: thrown, details: { server } });
    }
  }

  async #ask<Answer>(
    connection: UpstreamConnection,
    ask: (connection: UpstreamConnection) => Promise<Answer>,
  ): Promise<Answer> {
    this.#users.set(connection, (this.#users.get(connection) ?? 0) + 1);
    try {
      return await ask(connection);
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

  /** Asks anew, unless that has just been done: a tool is not what it was said to be. */
  async relist(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#listedAt >= MIN_TTL_MS) await this.list(signal);
  }

  /** The tools have changed, or may have: they are listed again, soon and not too often. */
  #changed(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
    if (this.#closing.signal.aborted || this.#refresh !== undefined || !this.#isListed) return;
    const delayMs = Math.max(0, this.#listedAt + MIN_TTL_MS - performance.now());
    this.#refresh = setTimeout(() => {
      this.#refresh = undefined;
      // Nobody waits for it: the next who asks for the tools hears why it failed.
      this.list(this.#closing.signal).catch(() => {});
    }, delayMs).unref();
  }

  /** Whether what the server has said last of its tools still holds. */
  get isFresh(): boolean {
    return this.#isListed && performance.now() < this.#freshUntil;
  }

  /**
   * Asks the server for its tools, once for all who want them meanwhile.
   * @throws {ToolError} TOOL_UNAVAILABLE, as a rejection; the signal's reason where that aborts
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
      // It takes its own time to connect, and no longer.
      await this.use(this.#closing.signal, (connection) => this.#listBy(connection));
    } catch (thrown) {
      this.#freshUntil = Number.NEGATIVE_INFINITY;
      throw thrown;
    }
  }

  async #listBy(connection: UpstreamConnection): Promise<void> {
    const begun = performance.now();
    this.#freshUntil = Number.POSITIVE_INFINITY;
    const listing = await connection.listTools().catch((thrown: unknown) => {
      // Where the connection was lost, that is what was wrong.
      const isNew = thrown instanceof ToolError && connection.isOpen;
      if (isNew) this.#lastError = { message: thrown.message, at: Date.now() };
      throw thrown;
    });
    await this.#parts.onListed(listing);
    this.#isListed = true;
    this.#listedAt = performance.now();
    // Told meanwhile, a change has made it stale already: it is listed again.
    if (this.#freshUntil !== Number.POSITIVE_INFINITY) return this.#changed();
    // What is said to hold for no time at all is kept for a moment all the same.
    const ttlMs = listing.ttlMs ?? (connection.tellsOfChanges ? Number.POSITIVE_INFINITY : DEFAULT_TTL_MS);
    this.#freshUntil = begun + Math.max(MIN_TTL_MS, ttlMs);
  }

  /** In bounded time. Twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(unavailable("not_found", `The MCP server ${this.#parts.server} has been removed`));
    clearTimeout(this.#refresh);
    this.#refresh = undefined;
    const open = [this.#connection, ...this.#users.keys()].filter((connection) => connection !== undefined);
    this.#connection = undefined;
    await Promise.all([...open.map((each) => each[Symbol.asyncDispose]()), this.#connecting?.catch(() => undefined)]);
    await Promise.all(this.#discarded);
  }
}

async function askForCredentials(
  credentials: LinkParts["credentials"],
  server: string,
  signal: AbortSignal,
): Promise<Credentials> {
  try {
    return await credentials(signal);
  } catch (cause) {
    const options = { cause, details: { server } };
    throw unavailable("upstream_unavailable", `There are no credentials for the MCP server ${server}`, options);
  }
}
