// Server and ServerResponse of node:http. Frameworks create them when an application is created, also when the application only handles
// requests that the tool passes to it. No server ever listens.
import { OutgoingMessage } from "./http-outgoing.ts";
import { constructible, nodeError, unsupported } from "./node-error.ts";
import { EventEmitter } from "./node-events.ts";

const NO_SERVER = "a tool cannot listen";

/** A response without a connection. Data that is written to it is discarded. */
export class ServerResponse extends OutgoingMessage {
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

/** A server that never listens. */
export class Server extends EventEmitter {
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
