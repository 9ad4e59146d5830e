// ClientRequest of node:http: one exchange over the `fetch` capability, with Node's events and errors. The host checks and sends it like a
// request of fetch.
import { inContext } from "../../timers.ts";
import { Buffer } from "../buffer/node-buffer.ts";
import type { OpenedResponse } from "../fetch/fetch-exchange.ts";
import type { Signal } from "../fetch/fetch-request.ts";
import { nextTick } from "../process/node-process.ts";
import { unsupported } from "../shared/node-error.ts";
import type { Agent } from "./http-agent.ts";
import { abortError, connectionReset, isReset, nameNotFound, toNodeError } from "./http-errors.ts";
import { type HeaderPair, ofDecodedBody, pairUp, toWireHeaders } from "./http-headers.ts";
import { IncomingMessage, respond } from "./http-incoming.ts";
import {
  checkPath,
  chooseAgent,
  isHostName,
  type RequestOptions,
  type RequestServer,
  readArguments,
  readMethod,
  readProtocol,
  readServer,
  urlOf,
} from "./http-options.ts";
import { OutgoingMessage } from "./http-outgoing.ts";
import { ExchangeSocket, toTimeout } from "./http-socket.ts";
import { RequestBody } from "./http-upload.ts";

// Path of an import. The module is loaded with the first request.
declare function require(file: "../fetch/fetch.ts"): typeof import("../fetch/fetch.ts");

type Done = (error?: Error | null) => void;
const BODILESS_METHODS = ["GET", "HEAD"];
const UNCHUNKED_METHODS = [...BODILESS_METHODS, "DELETE", "OPTIONS", "TRACE"];
/** A body with a longer Content-Length is sent while it is written. It is then sent in chunks. */
const MAX_KEPT_BYTES = 4 * 1024 * 1024;

/** Aborts the exchange of one request. */
class ExchangeAbort implements Signal {
  aborted = false;
  reason: unknown;
  readonly #listeners = new Set<() => void>();
  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }
  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }
  abort(reason: unknown): void {
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
  }
}

export class ClientRequest extends OutgoingMessage {
  readonly agent: Agent;
  readonly host: string;
  readonly protocol: string;
  method: string;
  path: string;
  timeout: number | undefined;
  res: IncomingMessage | null = null;
  socket: ExchangeSocket | null = null;
  aborted = false;
  reusedSocket = false;
  shouldKeepAlive = true;
  upgradeOrConnect = false;
  useChunkedEncodingByDefault: boolean;
  maxHeadersCount: number | null = null;
  readonly #server: RequestServer;
  readonly #joinsDuplicates: boolean;
  /** Runs a function in the context in which the request was made. */
  readonly #inContext: (run: () => void) => void = inContext((run: () => void) => run());
  readonly #exchange = new ExchangeAbort();
  readonly #body = new RequestBody();
  #isStarted = false;
  #isFlushed = false;
  #isClosed = false;
  #listensToTimeout = false;
  #error: unknown;
  /** Error with which the connection closed. */
  #cause: unknown;

  constructor(defaultAgent: Agent, args: readonly unknown[]) {
    const { options, callback } = readArguments(args);
    super({ autoDestroy: false, emitClose: false, ...highWaterMarkOf(options) });
    this.agent = chooseAgent(options, defaultAgent);
    this.protocol = readProtocol(options, this.agent, defaultAgent);
    this.#server = readServer(options, this.agent, this.protocol);
    this.host = this.#server.name;
    if (options.timeout !== undefined) this.timeout = toTimeout(options.timeout, "timeout");
    this.method = readMethod(options);
    this.path = checkPath(String(options.path || "/"));
    this.useChunkedEncodingByDefault = !UNCHUNKED_METHODS.includes(this.method);
    this.#joinsDuplicates = options.joinDuplicateHeaders === true;
    this.#setGivenHeaders(options);
    if (callback !== undefined) this.once("response", callback);
    if (options.signal) this.#follow(options.signal as Signal);
    const { host: _host, ...rest } = options;
    this.agent.addRequest(this, { ...rest, host: this.host, port: this.#server.port } as never);
  }

  get connection(): ExchangeSocket | null {
    return this.socket;
  }

  #setGivenHeaders({ headers, auth, setHost, setDefaultHeaders }: RequestOptions): void {
    if (Array.isArray(headers)) {
      const pairs = Array.isArray(headers[0]) ? headers : pairUp(headers);
      for (const [name, value] of pairs as [string, unknown][]) this.appendHeader(name, value);
      this.headersSent = true;
      return;
    }
    for (const [name, value] of Object.entries(headers ?? {})) this.setHeader(name, value);
    const { host, port, protocol } = this.#server;
    const isDefault = port === (protocol === "https:" ? 443 : 80);
    const addsHost = setHost === undefined ? setDefaultHeaders !== false : Boolean(setHost);
    if (addsHost && !this.getHeader("host")) this.setHeader("Host", isDefault ? host : `${host}:${port}`);
    if (auth && !this.getHeader("authorization")) {
      this.setHeader("Authorization", `Basic ${Buffer.from(auth as string).toString("base64")}`);
    }
    if (this.getHeader("expect")) this.flushHeaders();
  }

  #follow(signal: Signal): void {
    const abort = (): void => void this.destroy(abortError(signal.reason));
    if (signal.aborted) abort();
    else {
      signal.addEventListener("abort", abort);
      this.once("close", () => signal.removeEventListener("abort", abort));
    }
  }

  /** Called by the agent when the request may start. */
  onSocket(given?: unknown): void {
    // A socket of an agent that is not the platform's.
    if (given !== undefined) throw unsupported("ClientRequest.onSocket()", "a tool has no sockets; use fetch");
    nextTick(() => {
      if (this.destroyed) this.#closeUnsent();
      else this.#connect();
    });
  }

  #connect(): void {
    const socket = new ExchangeSocket(this.protocol === "https:", (error) =>
      this.#exchange.abort(error ?? connectionReset("socket hang up")),
    );
    this.socket = socket;
    socket._httpMessage = this;
    socket.on("error", (error: unknown) => this.#emitError(error));
    socket.on("close", () => this.#onSocketClose());
    socket.on("timeout", () => this.res?.emit("timeout"));
    const timeout = this.timeout ?? this.agent.options?.timeout;
    if (timeout !== undefined) {
      this.#listenToTimeout(socket);
      socket.setTimeout(timeout);
    }
    this.emit("socket", socket);
    this.#startSoon();
  }

  #listenToTimeout(socket: ExchangeSocket): void {
    if (this.#listensToTimeout) return;
    this.#listensToTimeout = true;
    socket.on("timeout", () => this.emit("timeout"));
  }

  // The body.

  override write(chunk: unknown, ...rest: never[]): boolean {
    this.flushHeaders();
    return super.write(chunk, ...rest);
  }

  override end(...args: never[]): this {
    this.#fixHeaders();
    super.end(...args);
    return this;
  }

  override flushHeaders(): void {
    this.#fixHeaders();
    this.#isFlushed = true;
    this.#startSoon();
  }

  #fixHeaders(): void {
    if (!this.headersSent) this._implicitHeader();
  }

  /** Ends the time in which headers can be set. Agents of npm replace it to add cookies as late as possible. */
  _implicitHeader(): void {
    this.headersSent = true;
  }

  override _write(chunk: Uint8Array, _encoding: string, done: Done): void {
    if (this.socket !== null) {
      this.socket.bytesWritten += chunk.byteLength;
      this.socket.touch();
    }
    if (this.#body.put(chunk, done)) return;
    this.destroy(new TypeError(`Request: a request of method ${this.method} has no body`));
  }

  override _final(done: Done): void {
    this.#body.end(done);
    this.#startSoon();
  }

  /** Starts the exchange after the code that is running, which may write the whole body. */
  #startSoon(): void {
    if (this.socket !== null) nextTick(() => this.#start());
  }

  /** Tells whether the exchange starts only when the body is complete. The host then states its length. */
  #waitsForBody(): boolean {
    if (this.#body.isComplete) return false;
    if (BODILESS_METHODS.includes(this.method)) return !this.#body.isEmpty || !this.#isFlushed;
    const length = this.getHeader("content-length");
    return length !== undefined && Number(length) <= MAX_KEPT_BYTES;
  }

  #start(): void {
    if (this.#isStarted || this.destroyed || !(this.#isFlushed || this.#body.isComplete)) return;
    if (/^100-continue$/i.test(String(this.getHeader("expect")))) this.#continue();
    if (this.#waitsForBody()) return;
    this.#isStarted = true;
    const body = this.#body.take(this.#body.isComplete || BODILESS_METHODS.includes(this.method));
    try {
      if (!isHostName(this.#server.host)) throw nameNotFound(this.host);
      const url = urlOf(this.#server, checkPath(this.path));
      const headers = toWireHeaders(this.givenHeaders(), this.#server);
      require("../fetch/fetch.ts")
        .sendHttpRequest({ method: this.method, url, headers, body, signal: this.#exchange })
        .then(
          (response) => this.#inContext(() => this.#respond(response)),
          (error: unknown) => this.#inContext(() => this.#fail(error)),
        );
      this.#body.finish();
    } catch (error) {
      this.socket?.destroy(error);
    }
  }

  #hasContinued = false;
  /** The host decides when the body is sent, so the tool can write it. */
  #continue(): void {
    if (this.#hasContinued) return;
    this.#hasContinued = true;
    nextTick(() => this.emit("continue"));
  }

  // The response.

  #respond({ head, body }: OpenedResponse): void {
    const { socket } = this;
    if (socket === null || this.destroyed) return;
    socket.touch();
    const response = new IncomingMessage(socket);
    const headers: readonly HeaderPair[] = body === undefined ? head.headers : ofDecodedBody(head.headers);
    respond(response, {
      status: head.status,
      statusText: head.statusText,
      headers,
      joinsDuplicates: this.#joinsDuplicates,
      body,
      onPart: (bytes) => {
        socket.bytesRead += bytes;
        socket.touch();
      },
      onFailure: (error) => this.#fail(error),
    });
    this.res = response;
    response.req = this;
    response.on("close", () => this.#onResponseClose(response));
    if (!this.emit("response", response)) response._dump();
  }

  #onResponseClose(response: IncomingMessage): void {
    if (!response.complete) return;
    this.socket?.release();
    const close = (): void => nextTick(() => this.#close());
    if (this.#body.isComplete || this.destroyed) close();
    else this.once("finish", close);
  }

  /** Ends the request with an error of fetch. */
  #fail(error: unknown): void {
    const { socket, res } = this;
    if (socket === null || socket.destroyed) return;
    this.#cause = error;
    if (isReset(error)) socket.destroy();
    else {
      const failure = toNodeError(error, { host: this.host, port: this.#server.port });
      // The reader of the response gets the reason as well.
      if (res === null) socket.destroy(failure);
      else res.destroy(failure as Error);
    }
  }

  // The end.

  override destroy(error?: unknown): this {
    if (this.destroyed) return this;
    super.destroy();
    this.res?._dump();
    this.#error = error;
    if (this.socket === null) nextTick(() => this.#closeUnsent());
    else this.socket.destroy(error);
    return this;
  }

  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    this.destroy();
    nextTick(() => this.emit("abort"));
  }

  #hasFailed = false;
  #emitError(error: unknown): void {
    this.#hasFailed = true;
    this.emit("error", error);
  }

  /** Ends a request that was destroyed before it had a socket. */
  #closeUnsent(): void {
    if (this.#isClosed) return;
    const error = this.#error ?? (this.aborted ? undefined : connectionReset("socket hang up"));
    try {
      if (error !== undefined) this.#emitError(error);
    } finally {
      this.#close();
    }
  }

  #onSocketClose(): void {
    const { res } = this;
    if (this.#isClosed) return;
    try {
      if (res === null) {
        if (!this.#hasFailed) this.#emitError(connectionReset("socket hang up", this.#cause));
      } else if (!res.complete) res.destroy(connectionReset("aborted", this.#cause));
    } finally {
      this.#close();
    }
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    super.destroy();
    this.emit("close");
  }

  override setTimeout(ms: unknown, callback?: unknown): this {
    const timeout = toTimeout(ms, "msecs");
    if (typeof callback === "function") this.once("timeout", callback as () => void);
    const set = (socket: ExchangeSocket): void => {
      this.#listenToTimeout(socket);
      socket.setTimeout(timeout);
    };
    if (this.socket === null) this.once("socket", set);
    else set(this.socket);
    return this;
  }
  clearTimeout(): void {
    this.setTimeout(0);
  }
  setNoDelay(): void {}
  setSocketKeepAlive(): void {}
}

const highWaterMarkOf = ({ highWaterMark }: RequestOptions): object =>
  highWaterMark === undefined || highWaterMark === null ? {} : { highWaterMark };
