// Implements one connection to an upstream server with the client of the MCP SDK: connects, lists tools, calls tools and closes. The SDK is
// loaded with the first connection.
import { Client, LOG_LEVEL_META_KEY } from "@modelcontextprotocol/client";
import * as z from "zod";
import type { JsonValue } from "../../../sandbox/contract/errors.ts";
import { untilAborted } from "../../util/with-abort.ts";
import { EndedEarly, serverUnavailable, toCallError, toConnectError, toListError } from "./call-error.ts";
import { ChangeSubscription } from "./change-subscription.ts";
import type { TenantCredentials } from "./credentials.ts";
import { currentExchange, type GuardedTransport } from "./guarded-transport.ts";
import { statusOf } from "./http/failed-request.ts";
import { InactivityDetector } from "./inactivity-detector.ts";
import { Listing } from "./listing.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import { type OpenedTransport, openTransport } from "./open-transport.ts";
import type { JsonObject } from "./reading/json-size.ts";
import { answerRequests, toAnswers, toCapabilities } from "./requests.ts";
import type { ServerDiagnostics } from "./server-diagnostics.ts";
import { toVisible } from "./text/visible-text.ts";
import { StaleConnection, type UpstreamCall } from "./upstream-call.ts";

/** Longest delay of a timer. It disables the SDK's timeouts, because calls and listings have their own. */
const NO_TIMEOUT_MS = 2_147_483_647;
/** Longest time in ms to wait for `server/discover`: a program that does not know the newest revision may never answer it. */
const PROBE_MS = 5_000;
/** Largest number of rounds of input requests in one call. */
const MAX_ROUNDS = 8;
/** Longest time in ms to close a connection. A program was killed by then; an HTTP session that was not ended will expire. */
const CLOSE_MS = 3_000;
/** Longest time in ms to wait for the answer to `tasks/cancel`. */
const CANCEL_MS = 3_000;
/** The call itself reads the result. */
const AnyResultSchema = z.looseObject({});

/** The result of a call as the server sent it, or the task that the call has become. */
export type UpstreamAnswer = { readonly result: JsonObject } | { readonly task: JsonObject };

/** Parameters of a request about a task. */
export interface TaskParams {
  readonly taskId: string;
  readonly inputResponses?: JsonObject;
}

export interface ConnectionDependencies {
  readonly server: string;
  readonly config: McpServerConfig;
  readonly credentials: TenantCredentials;
  readonly environment: NodeJS.ProcessEnv;
  readonly version: string;
  /** Aborts with a ToolError when the connection is no longer needed. */
  readonly signal: AbortSignal;
  /** Called with the closing promise of each connection that failed. */
  readonly onDiscarded: (closing: Promise<void>) => void;
  readonly onToolsChanged: () => void;
  /** Called after each call with a result, which shows that the server works. */
  readonly onAnswered: () => void;
  readonly onClosed: () => void;
  /** Called with a function that returns the current diagnostics of a program. */
  readonly onDiagnostics: (read: () => ServerDiagnostics) => void;
}

/** Disables the SDK's schema validator, which generates code from the untrusted schema. The router validates arguments and outputs. */
const NO_VALIDATOR = { getValidator: () => () => ({ valid: true, data: undefined, errorMessage: undefined }) as never };

export class UpstreamConnection implements AsyncDisposable {
  readonly #dependencies: ConnectionDependencies;
  readonly #client: Client;
  readonly #opened: OpenedTransport;
  readonly #calls = new Set<UpstreamCall>();
  /** Requests to end tasks that have no answer yet. */
  readonly #cancelling = new Set<Promise<void>>();
  readonly #changes: ChangeSubscription;
  #outage: { readonly cause: unknown; readonly at: number } = { cause: undefined, at: Number.NEGATIVE_INFINITY };
  readonly #inactivity = new InactivityDetector();
  #isOpen = false;
  #isClosing = false;
  readonly openedAt: number = performance.now();

  private constructor(dependencies: ConnectionDependencies, mode: "auto" | "legacy" | { readonly pin: string }) {
    const { server, config, credentials, environment, version } = dependencies;
    this.#dependencies = dependencies;
    this.#opened = openTransport(config, credentials, environment);
    if (this.#opened.diagnostics !== undefined) dependencies.onDiagnostics(this.#opened.diagnostics);
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
    answerRequests(client, toAnswers(server, config), () => this.#currentCall());
    client.setNotificationHandler("notifications/message", ({ params }) => {
      this.#currentCall()?.log(params.level, params.logger, params.data);
    });
    client.setNotificationHandler("notifications/tools/list_changed", () => dependencies.onToolsChanged());
    client.onclose = () => this.#handleClose();
    // Errors that make a request fail reach its caller, and the others have no consequence.
    client.onerror = () => {};
    this.#client = client;
    this.#changes = new ChangeSubscription(client, config.connectTimeoutMs, () => dependencies.onToolsChanged());
  }

  /** Starts the server if it is a program, and connects to it. @throws {ToolError} TOOL_UNAVAILABLE, as a rejection */
  static async open(dependencies: ConnectionDependencies): Promise<UpstreamConnection> {
    const { config } = dependencies;
    const mode = config.protocol === "2026-07-28" ? { pin: config.protocol } : config.protocol;
    try {
      return await UpstreamConnection.#open(dependencies, mode);
    } catch (thrown) {
      const isProgram = !("url" in config);
      // Some programs exit when they receive a request that they do not know.
      if (isProgram && mode === "auto" && thrown instanceof EndedEarly) {
        return await UpstreamConnection.#open(dependencies, "legacy").catch((again: unknown) => {
          throw toConnectError(again, dependencies);
        });
      }
      throw toConnectError(thrown, dependencies);
    }
  }

  static async #open(
    dependencies: ConnectionDependencies,
    mode: "auto" | "legacy" | { readonly pin: string },
  ): Promise<UpstreamConnection> {
    const connection = new UpstreamConnection(dependencies, mode);
    const { connectTimeoutMs } = dependencies.config;
    const inTime = AbortSignal.any([dependencies.signal, AbortSignal.timeout(connectTimeoutMs)]);
    try {
      // Without an exchange, so that later messages of the server are not attributed to the request that opened the connection.
      const connecting = currentExchange.run(undefined, () =>
        connection.#client.connect(connection.transport, { timeout: connectTimeoutMs }),
      );
      await untilAborted(connecting, inTime);
    } catch (thrown) {
      const { hasEnded } = connection.transport;
      dependencies.onDiscarded(connection[Symbol.asyncDispose]());
      throw hasEnded ? new EndedEarly("The program exited while it was being connected", { cause: thrown }) : thrown;
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

  /** Name and version that the server reports. Untrusted text. */
  get serverInfo(): { readonly name: string; readonly version: string } | undefined {
    const { name, version } = this.#client.getServerVersion() ?? {};
    if (name === undefined || version === undefined) return undefined;
    return { name: toVisible(name.slice(0, 256)), version: toVisible(version.slice(0, 256)) };
  }

  get pid(): number | undefined {
    const { pid } = this.transport as { readonly pid?: number | null };
    return pid ?? undefined;
  }

  /** Whether the server sends notifications when its tools change. */
  get notifiesOfChanges(): boolean {
    if (this.#client.getProtocolEra() !== "legacy") return this.#changes.isOpen;
    // Over HTTP it is unknown whether the server has opened a stream for notifications.
    const isProgram = !("url" in this.#dependencies.config);
    return isProgram && this.#client.getServerCapabilities()?.tools?.listChanged === true;
  }

  #begin(): void {
    const { logging, tools } = this.#client.getServerCapabilities() ?? {};
    const { connectTimeoutMs, logLevel } = this.#dependencies.config;
    const isLegacy = this.#client.getProtocolEra() === "legacy";
    if (isLegacy && logging !== undefined) {
      this.#client.setLoggingLevel(logLevel, { timeout: connectTimeoutMs }).catch(() => {});
    }
    if (!isLegacy && tools?.listChanged === true) void this.#changes.listen();
  }

  /** Returns the call that a message belongs to: the one on whose stream it arrived, or the only call in progress. */
  #currentCall(): UpstreamCall | undefined {
    const exchange = currentExchange.getStore();
    if (exchange !== undefined) return [...this.#calls].find((call) => call === exchange);
    return this.#calls.size === 1 ? [...this.#calls][0] : undefined;
  }

  /** Returns all pages of the server's tools, unchecked. @throws {ToolError | StaleConnection} TOOL_UNAVAILABLE, as a rejection */
  async listTools(): Promise<Listing> {
    const { server, config } = this.#dependencies;
    const listing = new Listing(config.maxTools);
    if (this.#client.getServerCapabilities()?.tools === undefined) return listing;
    const signal = AbortSignal.timeout(config.connectTimeoutMs);
    const options = { timeout: NO_TIMEOUT_MS, signal, cacheMode: "refresh" } as const;
    try {
      const listed = await currentExchange.run(listing, () => this.#client.listTools(undefined, options));
      listing.callable = new Set(listed.tools.map(({ name }) => name));
      return listing;
    } catch (thrown) {
      this.#throwIfStale(thrown);
      throw toListError(thrown, server, signal.aborted);
    }
  }

  /**
   * Calls a tool and returns the result as the server sent it.
   * @throws {ToolError | StaleConnection} as a rejection
   */
  async callTool(call: UpstreamCall, args: { readonly [name: string]: JsonValue }): Promise<UpstreamAnswer> {
    const { server, config } = this.#dependencies;
    const { toolName, context } = call;
    const { logLevel } = config;
    const requestsLogs = this.#client.getProtocolEra() === "modern" && this.#client.getServerCapabilities()?.logging;
    const _meta = { ...context.traceContext, ...(requestsLogs ? { [LOG_LEVEL_META_KEY]: logLevel } : {}) };
    const params = { name: toolName, arguments: args, ...(Object.keys(_meta).length === 0 ? {} : { _meta }) };
    const options = {
      timeout: NO_TIMEOUT_MS,
      signal: call.signal,
      // Makes the SDK request progress. The transport passes the notifications to the call directly.
      onprogress: () => {},
    };
    this.#inactivity.begin(call.begunAt, this.transport.lastMessageAt);
    await this.#request(call, () => this.#client.callTool(params, options));
    const { result } = call;
    if (result === undefined) throw serverUnavailable(server, `returned no result for "${toolName}"`, undefined);
    this.#dependencies.onAnswered();
    // Only the revision of 2026 has tasks.
    const isTask = result.resultType === "task" && this.#client.getProtocolEra() === "modern";
    return isTask ? { task: result } : { result };
  }

  /**
   * Sends a request about the task of a call. Returns what the server sent for `tasks/get`.
   * @throws {ToolError | StaleConnection} as a rejection
   */
  async requestTask(call: UpstreamCall, method: string, params: TaskParams): Promise<JsonObject> {
    const options = { timeout: NO_TIMEOUT_MS, signal: call.signal, allowInputRequired: true } as const;
    call.task = undefined;
    await this.#request(call, () => this.#client.request({ method, params: { ...params } }, AnyResultSchema, options));
    return call.task ?? {};
  }

  /** Requests the end of a task. The server need not answer. */
  async cancelTask(taskId: string): Promise<void> {
    const request = { method: "tasks/cancel", params: { taskId } };
    const cancelling = currentExchange.run(undefined, () =>
      this.#client.request(request, AnyResultSchema, { timeout: CANCEL_MS }),
    );
    const ended = cancelling.then(
      () => {},
      () => {},
    );
    this.#cancelling.add(ended);
    await ended;
    this.#cancelling.delete(ended);
  }

  /** Runs a request of a call. @throws {ToolError | StaleConnection} as a rejection */
  async #request(call: UpstreamCall, send: () => Promise<unknown>): Promise<void> {
    const { server, config } = this.#dependencies;
    this.#calls.add(call);
    try {
      await currentExchange.run(call, send);
    } catch (thrown) {
      this.#throwIfStale(thrown);
      if (call.isLate) this.#restartIfInactive(call);
      const { timeoutMs } = config;
      throw toCallError(thrown, call, { server, timeoutMs, toOutage: (cause) => this.#toOutage(call, cause) });
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Returns the cause of a failure, which is the same for all calls that were in progress when the first of them failed. */
  #toOutage(call: UpstreamCall, cause: unknown): unknown {
    if (call.begunAt > this.#outage.at) this.#outage = { cause, at: performance.now() };
    return this.#outage.cause;
  }

  /** Throws if the server no longer knows the session (404 by the standard, 400 with many servers), or rejects the credentials. */
  #throwIfStale(thrown: unknown): void {
    const status = statusOf(thrown);
    const isForgotten = (status === 404 || status === 400) && this.#opened.http?.sessionId !== undefined;
    if (status === 401 || isForgotten)
      throw new StaleConnection("The session or the credentials are no longer valid", { cause: thrown });
  }

  /** Closes the connection to a program that runs but does not answer, so that the next call starts a new process. */
  #restartIfInactive({ begunAt }: UpstreamCall): void {
    const { config, onClosed, onDiscarded } = this.#dependencies;
    if ("url" in config || !this.#isOpen) return;
    if (!this.#inactivity.isInactive(begunAt, this.transport.lastMessageAt, config.timeoutMs)) return;
    onClosed();
    onDiscarded(this[Symbol.asyncDispose]());
  }

  #handleClose(): void {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    this.#changes[Symbol.dispose]();
    if (wasOpen && !this.#isClosing) this.#dependencies.onClosed();
  }

  /** Closes the connection, in bounded time. A second call has no effect. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true;
    this.#isOpen = false;
    this.#changes[Symbol.dispose]();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSE_MS);
    await Promise.race([Promise.all([this.#endSession(), ...this.#cancelling]), late]);
    // Runs even if the server does not answer, because it ends all open requests.
    await Promise.race([this.#close(), late]);
    clearTimeout(timer);
  }

  /** Ends the session of an HTTP server (revisions of 2025). The server may never answer. */
  async #endSession(): Promise<void> {
    const { http } = this.#opened;
    if (http?.sessionId !== undefined) await http.terminateSession().catch(() => {});
  }

  async #close(): Promise<void> {
    await this.#client.close().catch(() => {});
    await this.transport.close().catch(() => {});
  }
}
