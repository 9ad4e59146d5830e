// One connection to an upstream server: opened, asked for its tools, called, closed. What it stands on is loaded with the first of them.
import { Client, LOG_LEVEL_META_KEY, type McpSubscription } from "@modelcontextprotocol/client";
import type { JsonValue } from "../../../sandbox/contract/errors.ts";
import { untilAborted } from "../../util/with-abort.ts";
import { EndedEarly, serverUnavailable, statusOf, toCallError, toConnectError, toListError } from "./call-error.ts";
import type { Credentials } from "./credentials.ts";
import { currentExchange, type GuardedTransport } from "./guarded-transport.ts";
import { InactivityDetector } from "./inactivity-detector.ts";
import { Listing } from "./listing.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import { type OpenedTransport, openTransport } from "./open-transport.ts";
import { answerRequests, toCapabilities } from "./requests.ts";
import type { ServerDiagnostics } from "./server-diagnostics.ts";
import { toVisible } from "./text/visible-text.ts";
import { StaleConnection, type UpstreamCall } from "./upstream-call.ts";
import { toReturned } from "./upstream-result.ts";

/** A timer's longest: our own clocks end what takes too long. */
const NEVER_MS = 2_147_483_647;
/** A program that knows nothing of the newest protocol may leave its first question without an answer. */
const PROBE_MS = 5_000;
/** Rounds of questions in one call. */
const MAX_ROUNDS = 8;
/** A program is dead by then, and a server that is not told that its session is over will find out. */
const CLOSE_MS = 3_000;
/** How long to wait before a subscription that broke off is asked for again; after the last of them it is left alone. */
const RELISTEN_MS = [1_000, 5_000, 30_000, 30_000, 30_000] as const;
/** One that has lasted so long has only had bad luck. */
const STEADY_MS = 60_000;

export interface ConnectionParts {
  readonly server: string;
  readonly config: McpServerConfig;
  readonly credentials: Credentials;
  readonly environment: NodeJS.ProcessEnv;
  readonly version: string;
  /** Aborts with a ToolError when the connection is not wanted any more. */
  readonly signal: AbortSignal;
  /** Told of each one that came to nothing, and is still being closed. */
  readonly onDiscarded: (closing: Promise<void>) => void;
  readonly onToolsChanged: () => void;
  /** Told of each call that has a result: the server works. */
  readonly onAnswered: () => void;
  readonly onClosed: () => void;
  /** Given what a program leaves for the operator, as it is by then. */
  readonly onDiagnostics: (read: () => ServerDiagnostics) => void;
}

/** Nothing is checked there against a schema: it would make code of it, and the router checks. */
const NO_VALIDATOR = { getValidator: () => () => ({ valid: true, data: undefined, errorMessage: undefined }) as never };

export class UpstreamConnection implements AsyncDisposable {
  readonly #parts: ConnectionParts;
  readonly #client: Client;
  readonly #opened: OpenedTransport;
  readonly #calls = new Set<UpstreamCall>();
  #subscription: McpSubscription | undefined;
  #relisten: NodeJS.Timeout | undefined;
  #relistened = 0;
  #outage: { readonly cause: unknown; readonly at: number } = { cause: undefined, at: Number.NEGATIVE_INFINITY };
  readonly #silence = new InactivityDetector();
  #isOpen = false;
  #isClosing = false;
  readonly openedAt: number = performance.now();

  private constructor(parts: ConnectionParts, mode: "auto" | "legacy" | { readonly pin: string }) {
    const { server, config, credentials, environment, version } = parts;
    this.#parts = parts;
    this.#opened = openTransport(config, credentials, environment);
    if (this.#opened.diagnostics !== undefined) parts.onDiagnostics(this.#opened.diagnostics);
    const timeoutMs = Math.min(PROBE_MS, Math.ceil(config.connectTimeoutMs / 2));
    const client = new Client(
      { name: "glovebox", version },
      {
        capabilities: toCapabilities(config),
        jsonSchemaValidator: NO_VALIDATOR,
        versionNegotiation: { mode, ...("url" in config ? {} : { probe: { timeoutMs } }) },
        inputRequired: { maxRounds: MAX_ROUNDS },
      },
    );
    answerRequests(client, server, config, () => this.#subject());
    client.setNotificationHandler("notifications/message", ({ params }) => {
      this.#subject()?.log(params.level, params.logger, params.data);
    });
    client.setNotificationHandler("notifications/tools/list_changed", () => parts.onToolsChanged());
    client.onclose = () => this.#closed();
    // What goes wrong beside a request has no one to be told: the request itself fails, or nothing is wrong.
    client.onerror = () => {};
    this.#client = client;
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE, as a rejection */
  static async open(parts: ConnectionParts): Promise<UpstreamConnection> {
    const { config } = parts;
    const mode = config.protocol === "2026-07-28" ? { pin: config.protocol } : config.protocol;
    try {
      return await UpstreamConnection.#open(parts, mode);
    } catch (thrown) {
      const isProgram = !("url" in config);
      // Some end at a question that they do not know.
      if (isProgram && mode === "auto" && thrown instanceof EndedEarly) {
        return await UpstreamConnection.#open(parts, "legacy").catch((again: unknown) => {
          throw toConnectError(again, parts);
        });
      }
      throw toConnectError(thrown, parts);
    }
  }

  static async #open(
    parts: ConnectionParts,
    mode: "auto" | "legacy" | { readonly pin: string },
  ): Promise<UpstreamConnection> {
    const connection = new UpstreamConnection(parts, mode);
    const { connectTimeoutMs } = parts.config;
    const inTime = AbortSignal.any([parts.signal, AbortSignal.timeout(connectTimeoutMs)]);
    try {
      // What the server says later belongs to no request of ours.
      const connecting = currentExchange.run(undefined, () =>
        connection.#client.connect(connection.transport, { timeout: connectTimeoutMs }),
      );
      await untilAborted(connecting, inTime);
    } catch (thrown) {
      const { hasEnded } = connection.transport;
      parts.onDiscarded(connection[Symbol.asyncDispose]());
      throw hasEnded ? new EndedEarly("It ended while it was asked", { cause: thrown }) : thrown;
    }
    connection.#isOpen = true;
    connection.#begin();
    return connection;
  }

  get transport(): GuardedTransport {
    return this.#opened.transport;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get protocolVersion(): string | undefined {
    return this.#client.getNegotiatedProtocolVersion();
  }

  /** The server's own word. */
  get serverInfo(): { readonly name: string; readonly version: string } | undefined {
    const { name, version } = this.#client.getServerVersion() ?? {};
    if (name === undefined || version === undefined) return undefined;
    return { name: toVisible(name.slice(0, 256)), version: toVisible(version.slice(0, 256)) };
  }

  get pid(): number | undefined {
    const { pid } = this.transport as { readonly pid?: number | null };
    return pid ?? undefined;
  }

  /** Whether it says when its tools change. */
  get tellsOfChanges(): boolean {
    if (this.#client.getProtocolEra() !== "legacy") return this.#subscription !== undefined;
    // Over HTTP nobody knows whether there is a stream that it could say so on.
    const isProgram = !("url" in this.#parts.config);
    return isProgram && this.#client.getServerCapabilities()?.tools?.listChanged === true;
  }

  #begin(): void {
    const { logging, tools } = this.#client.getServerCapabilities() ?? {};
    const { connectTimeoutMs, logLevel } = this.#parts.config;
    const isLegacy = this.#client.getProtocolEra() === "legacy";
    if (isLegacy && logging !== undefined) {
      this.#client.setLoggingLevel(logLevel, { timeout: connectTimeoutMs }).catch(() => {});
    }
    if (!isLegacy && tools?.listChanged === true) void this.#listen();
  }

  /** Without it, listings are kept for a while only: that it fails is no failure. */
  async #listen(): Promise<void> {
    const timeout = this.#parts.config.connectTimeoutMs;
    const begun = performance.now();
    try {
      const subscription = await currentExchange.run(undefined, () =>
        this.#client.listen({ toolsListChanged: true }, { timeout }),
      );
      this.#subscription = subscription;
      await subscription.closed;
      if (this.#subscription === subscription) this.#subscription = undefined;
      // What has changed meanwhile nobody has said.
      if (this.#isOpen) this.#parts.onToolsChanged();
    } catch {
      // As above.
    }
    if (performance.now() - begun > STEADY_MS) this.#relistened = 0;
    const delayMs = RELISTEN_MS[this.#relistened];
    this.#relistened += 1;
    if (this.#isOpen && delayMs !== undefined) this.#relisten = setTimeout(() => void this.#listen(), delayMs).unref();
  }

  /** Whose a message is: the request's on whose stream it came, or that of the only call there is. */
  #subject(): UpstreamCall | undefined {
    const exchange = currentExchange.getStore();
    if (exchange !== undefined) return [...this.#calls].find((call) => call === exchange);
    return this.#calls.size === 1 ? [...this.#calls][0] : undefined;
  }

  /** All pages of its tools, as they came. @throws {ToolError | StaleConnection} TOOL_UNAVAILABLE, as a rejection */
  async listTools(): Promise<Listing> {
    const { server, config } = this.#parts;
    const listing = new Listing(config.maxTools);
    if (this.#client.getServerCapabilities()?.tools === undefined) return listing;
    const signal = AbortSignal.timeout(config.connectTimeoutMs);
    const options = { timeout: NEVER_MS, signal, cacheMode: "refresh" } as const;
    try {
      const listed = await currentExchange.run(listing, () => this.#client.listTools(undefined, options));
      listing.shown = new Set(listed.tools.map(({ name }) => name));
      return listing;
    } catch (thrown) {
      this.#refuseWhenStale(thrown);
      throw toListError(thrown, server, signal.aborted);
    }
  }

  /** What the tool returns, as a host function would. @throws {ToolError | StaleConnection} as a rejection */
  async callTool(call: UpstreamCall, args: { readonly [name: string]: JsonValue }): Promise<unknown> {
    const { server, config } = this.#parts;
    const { toolName, context } = call;
    const { logLevel } = config;
    const asksForLog = this.#client.getProtocolEra() === "modern" && this.#client.getServerCapabilities()?.logging;
    const _meta = { ...context.traceContext, ...(asksForLog ? { [LOG_LEVEL_META_KEY]: logLevel } : {}) };
    const params = { name: toolName, arguments: args, ...(Object.keys(_meta).length === 0 ? {} : { _meta }) };
    const options = {
      timeout: NEVER_MS,
      signal: call.signal,
      // So that it is asked for: what comes of it, the call hears before.
      onprogress: () => {},
    };
    this.#calls.add(call);
    this.#silence.asked(call.begunAt, this.transport.heardAt);
    try {
      await currentExchange.run(call, () => this.#client.callTool(params, options));
    } catch (thrown) {
      this.#refuseWhenStale(thrown);
      if (call.isLate) this.#unanswered(call);
      const { timeoutMs } = config;
      throw toCallError(thrown, call, { server, timeoutMs, toOutage: (cause) => this.#toOutage(call, cause) });
    } finally {
      this.#calls.delete(call);
    }
    if (call.result === undefined) throw serverUnavailable(server, `gave no result of ${toolName}`, undefined);
    this.#parts.onAnswered();
    return await toReturned(call.result, toolName, context.signal);
  }

  /** For all calls that were on their way when the first of them failed, what that one failed by: a server that ends, ends them all. */
  #toOutage(call: UpstreamCall, cause: unknown): unknown {
    if (call.begunAt > this.#outage.at) this.#outage = { cause, at: performance.now() };
    return this.#outage.cause;
  }

  /** A session that the server has forgotten (404 by the standard, 400 from many), or credentials that it takes no longer. */
  #refuseWhenStale(thrown: unknown): void {
    const status = statusOf(thrown);
    const isForgotten = (status === 404 || status === 400) && this.#opened.http?.sessionId !== undefined;
    if (status === 401 || isForgotten) throw new StaleConnection("It does not know us any more", { cause: thrown });
  }

  /** A program that is alive and deaf is started anew, for the next call; a URL is asked anew each time. */
  #unanswered({ begunAt }: UpstreamCall): void {
    const { config, onClosed, onDiscarded } = this.#parts;
    if ("url" in config || !this.#isOpen) return;
    if (!this.#silence.lasts(begunAt, this.transport.heardAt, config.timeoutMs)) return;
    onClosed();
    onDiscarded(this[Symbol.asyncDispose]());
  }

  #closed(): void {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    clearTimeout(this.#relisten);
    if (wasOpen && !this.#isClosing) this.#parts.onClosed();
  }

  /** In bounded time. Twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true;
    this.#isOpen = false;
    clearTimeout(this.#relisten);
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSE_MS);
    await Promise.race([this.#endSession(), late]);
    // Also when the server does not answer: this ends all open requests.
    await Promise.race([this.#close(), late]);
    clearTimeout(timer);
  }

  /** Tells a server of the 2025 protocol that its session is over. The server may never answer. */
  async #endSession(): Promise<void> {
    const { http } = this.#opened;
    if (http?.sessionId !== undefined) await http.terminateSession().catch(() => {});
  }

  async #close(): Promise<void> {
    await this.#client.close().catch(() => {});
    await this.transport.close().catch(() => {});
  }
}
