// Server and ServerResponse of node:http. Frameworks create them when an application is created, also when the application only handles
// requests that the tool passes to it. No server ever listens.

import { EventEmitter } from "../events/node-events.ts";
import { adoptable, constructible } from "../shared/callable-classes.ts";
import { nodeError, unsupported } from "../shared/node-error.ts";
import { STATUS_CODES } from "./http-constants.ts";
import { pairUp } from "./http-headers.ts";
import { OutgoingMessage } from "./http-outgoing.ts";

const NO_SERVER = "a tool cannot listen";

interface ResponseSocket {
  _httpMessage?: unknown;
}

/**
 * A response without a connection. Data that is written to it is discarded. Libraries that hand a request to a framework without a server
 * inherit from it, and read what the framework passes to its methods.
 */
export class ServerResponse extends OutgoingMessage {
  statusCode = 200;
  statusMessage: string | undefined = undefined;
  readonly req: unknown;
  socket: ResponseSocket | null = null;

  constructor(request?: unknown) {
    super();
    this.req = request;
  }
  get connection(): ResponseSocket | null {
    return this.socket;
  }
  set connection(socket: ResponseSocket | null) {
    this.socket = socket;
  }
  assignSocket(socket: ResponseSocket): void {
    socket._httpMessage = this;
    this.socket = socket;
    this.emit("socket", socket);
  }
  detachSocket(socket: ResponseSocket): void {
    socket._httpMessage = null;
    this.socket = null;
  }
  /** Whether the response has a body, by Node's name. */
  get _hasBody(): boolean {
    const isHead = (this.req as { readonly method?: unknown } | undefined)?.method === "HEAD";
    return !isHead && this.statusCode !== 204 && this.statusCode !== 304 && this.statusCode >= 200;
  }
  override get _header(): string | null {
    const headers = super._header;
    if (headers === null) return null;
    const date = this.sendDate && !this.hasHeader("date") ? `Date: ${new Date().toUTCString()}\r\n` : "";
    return `HTTP/1.1 ${this.statusCode} ${this.statusMessage ?? ""}\r\n${date}${headers}`;
  }
  /** Sends the headers before the first data, through writeHead(), which middleware replaces. */
  _implicitHeader(): void {
    this.writeHead(this.statusCode);
  }
  #sendHeaders(): void {
    if (!this.headersSent) this._implicitHeader();
  }
  override write(chunk: unknown, ...rest: never[]): boolean {
    this.#sendHeaders();
    return super.write(chunk, ...rest);
  }
  override end(...args: never[]): this {
    this.#sendHeaders();
    return super.end(...args);
  }
  override flushHeaders(): void {
    this.#sendHeaders();
  }
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done();
  }
  writeHead(status: number, ...rest: unknown[]): this {
    if (this.headersSent)
      throw nodeError(Error, "ERR_HTTP_HEADERS_SENT", "Cannot write headers after they are sent to the client");
    if (!(status >= 100 && status <= 999))
      throw nodeError(RangeError, "ERR_HTTP_INVALID_STATUS_CODE", `Invalid status code: ${String(status)}`);
    const [first] = rest;
    if (typeof first === "string") this.statusMessage = first;
    this.statusCode = status;
    this.statusMessage ??= STATUS_CODES[status] ?? "unknown";
    this.#setHeaders(typeof first === "string" ? rest[1] : first);
    this.headersSent = true;
    return this;
  }
  /** @param headers an object, or a list of names and values */
  #setHeaders(headers: unknown): void {
    if (typeof headers !== "object" || headers === null) return;
    const pairs = Array.isArray(headers) ? pairUp(headers) : Object.entries(headers);
    for (const [name, value] of pairs) this.setHeader(name, value);
  }
}

/** A server that never listens. */
export class Server extends adoptable(EventEmitter) {
  readonly listening = false;
  timeout = 0;
  keepAliveTimeout = 5_000;
  headersTimeout = 60_000;
  requestTimeout = 300_000;
  maxHeadersCount: number | null = null;
  maxRequestsPerSocket = 0;
  constructor(...settings: unknown[]) {
    super();
    const listener = settings.at(-1);
    if (typeof listener === "function") this.on("request", listener as () => void);
  }
  listen(): never {
    throw unsupported("http.Server.listen()", NO_SERVER);
  }
  address(): null {
    return null;
  }
  close(done?: (error: Error) => void): this {
    const error = nodeError(Error, "ERR_SERVER_NOT_RUNNING", "Server is not running.");
    if (typeof done === "function") queueMicrotask(() => done(error));
    return this;
  }
  closeAllConnections(): void {}
  closeIdleConnections(): void {}
  setTimeout(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

export const createServer = constructible("createServer", (...settings: unknown[]) => new Server(...settings));
