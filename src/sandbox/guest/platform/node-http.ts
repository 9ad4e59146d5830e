// node:http and node:https: the members that packages read while they load. Requests throw, and servers cannot listen, because a tool
// has fetch only.

import { METHODS, STATUS_CODES } from "./http-constants.ts";
import { checkString, constructible, nodeError, unsupported } from "./node-error.ts";
import { EventEmitter } from "./node-events.ts";
import { Readable, Stream, Writable } from "./node-stream.ts";
import { addUnsupported } from "./unsupported-members.ts";

const USE_FETCH = "a tool has no sockets; use fetch, which the host can grant";
const NO_SERVER = "a tool cannot listen";

const unsupportedFunction = (what: string, instead: string) => (): never => {
  throw unsupported(what, instead);
};

/** Only its options are used. It never opens a connection. */
class Agent extends EventEmitter {
  readonly options: object;
  readonly requests = {};
  readonly sockets = {};
  readonly freeSockets = {};
  readonly maxSockets = Number.POSITIVE_INFINITY;
  readonly maxFreeSockets = 256;
  readonly keepAlive: boolean;
  readonly defaultPort: number = 80;
  readonly protocol: string = "http:";
  constructor(options: { readonly keepAlive?: boolean } = {}) {
    super();
    this.options = { ...options };
    this.keepAlive = options.keepAlive ?? false;
  }
  createConnection = unsupportedFunction("http.Agent", USE_FETCH);
  addRequest = unsupportedFunction("http.Agent", USE_FETCH);
  getName(): string {
    return "";
  }
  destroy(): void {}
}

class SecureAgent extends Agent {
  override readonly defaultPort = 443;
  override readonly protocol = "https:";
}

type Headers = { [name: string]: unknown };

class IncomingMessage extends Readable {
  headers: Headers = {};
  rawHeaders: string[] = [];
  trailers: Headers = {};
  httpVersion = "1.1";
  method: string | null = null;
  url = "";
  statusCode: number | null = null;
  statusMessage: string | null = null;
  complete = false;
  aborted = false;
  socket: unknown;
  constructor(socket?: unknown) {
    super();
    this.socket = socket;
  }
  override _read(): void {}
  get connection(): unknown {
    return this.socket;
  }
  setTimeout(): this {
    return this;
  }
}

class OutgoingMessage extends Writable {
  readonly #headers = new Map<string, readonly [string, unknown]>();
  headersSent = false;
  sendDate = true;
  setHeader(name: string, value: unknown): this {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    this.#headers.set(name.toLowerCase(), [name, value]);
    return this;
  }
  getHeader(name: string): unknown {
    return this.#headers.get(name.toLowerCase())?.[1];
  }
  hasHeader(name: string): boolean {
    return this.#headers.has(name.toLowerCase());
  }
  removeHeader(name: string): void {
    this.#headers.delete(name.toLowerCase());
  }
  getHeaderNames(): string[] {
    return [...this.#headers.keys()];
  }
  getHeaders(): Headers {
    return Object.fromEntries([...this.#headers].map(([key, [, value]]) => [key, value]));
  }
  flushHeaders(): void {}
}

/** A response without a connection. Data that is written to it is discarded. */
class ServerResponse extends OutgoingMessage {
  statusCode = 200;
  statusMessage = "";
  readonly req: unknown;
  constructor(request?: unknown) {
    super();
    this.req = request;
  }
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    this.headersSent = true;
    done();
  }
  writeHead(status: number, ...rest: unknown[]): this {
    this.statusCode = status;
    const headers = rest.at(-1);
    if (typeof headers === "object" && headers !== null) {
      for (const [name, value] of Object.entries(headers)) this.setHeader(name, value);
    }
    this.headersSent = true;
    return this;
  }
}

class ClientRequest extends OutgoingMessage {
  constructor() {
    super();
    throw unsupported("http.ClientRequest", USE_FETCH);
  }
}

/**
 * A server that never listens: frameworks create one when an application is created, also when it only handles requests that the tool
 * passes to it.
 */
class Server extends EventEmitter {
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

const createServer = constructible("createServer", (...settings: unknown[]) => new Server(...settings));

const TOKEN = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;

function validateHeaderName(name: unknown): void {
  if (typeof name === "string" && TOKEN.test(name)) return;
  throw nodeError(TypeError, "ERR_INVALID_HTTP_TOKEN", `Header name must be a valid HTTP token ["${String(name)}"]`);
}

function validateHeaderValue(name: string, value: unknown): void {
  checkString(name, "name");
  if (value === undefined) {
    throw nodeError(TypeError, "ERR_HTTP_INVALID_HEADER_VALUE", `Invalid value "undefined" for header "${name}"`);
  }
  if (/[^\t\x20-\x7e\x80-\xff]/.test(String(value))) {
    throw nodeError(TypeError, "ERR_INVALID_CHAR", `Invalid character in header content ["${name}"]`);
  }
}

const common = { METHODS, STATUS_CODES, maxHeaderSize: 16_384 };

const http = {
  ...common,
  Agent,
  ClientRequest,
  IncomingMessage,
  OutgoingMessage,
  Server,
  ServerResponse,
  globalAgent: new Agent({ keepAlive: true }),
  createServer,
  get: unsupportedFunction("http.get()", USE_FETCH),
  request: unsupportedFunction("http.request()", USE_FETCH),
  setMaxIdleHTTPParsers: (): void => {},
  validateHeaderName,
  validateHeaderValue,
};

const https = {
  Agent: SecureAgent,
  Server,
  globalAgent: new SecureAgent({ keepAlive: true }),
  createServer,
  get: unsupportedFunction("https.get()", USE_FETCH),
  request: unsupportedFunction("https.request()", USE_FETCH),
};

addUnsupported(http, "http", USE_FETCH, "CloseEvent MessageEvent WebSocket setGlobalProxyFromEnv");

export const builtins = {
  http,
  https,
  _http_agent: { Agent, globalAgent: http.globalAgent },
  _http_client: { ClientRequest },
  _http_common: { methods: METHODS, CRLF: "\r\n", HTTPParser: unsupportedFunction("HTTPParser", USE_FETCH), Stream },
  _http_incoming: { IncomingMessage },
  _http_outgoing: { OutgoingMessage, validateHeaderName, validateHeaderValue },
  _http_server: { STATUS_CODES, Server, ServerResponse },
};
