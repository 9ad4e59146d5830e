// The server for DevTools: HTTP and one WebSocket on loopback, at a path that cannot be guessed. A client can run code in the tool's
// isolate, and nowhere else.
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { isAddressHost } from "../util/address-host.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import type { InspectorClient, InspectorHub } from "./inspector-hub.ts";

const LOOPBACK = "127.0.0.1";
/** Largest message of a client: an expression, a breakpoint, an edited script. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
/** Data that may wait for a client to read it; beyond that, the client is disconnected. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;
const PROTOCOL = "1.3";
/** Connections at a time. A browser needs a few. */
const MAX_CONNECTIONS = 32;
/** Time in ms that a client may take to send a request. */
const REQUEST_MS = 10_000;

export interface InspectorServerOptions {
  /** Port to listen on. 0 picks a free port. */
  readonly port: number;
  /** Title in the client's list of targets. */
  readonly title: string;
}

/**
 * Accepts the origin of the browser's own DevTools. Editors and scripts send no origin. Any other origin is a page, a file or an extension.
 */
const isAllowedOrigin = (origin: string | undefined): boolean =>
  origin === undefined || /^(chrome-)?devtools:\/\/devtools$/.test(origin);

const isAllowed = ({ headers }: IncomingMessage): boolean =>
  isAddressHost(headers.host) && isAllowedOrigin(headers.origin);

export class InspectorServer implements AsyncDisposable {
  readonly #hub: InspectorHub;
  readonly #title: string;
  readonly #id = randomUUID();
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false });

  private constructor(hub: InspectorHub, { title }: InspectorServerOptions) {
    this.#hub = hub;
    this.#title = title;
    const timeouts = { headersTimeout: REQUEST_MS, requestTimeout: REQUEST_MS };
    this.#server = createServer(timeouts, (request, response) => this.#answer(request, response));
    this.#server.maxConnections = MAX_CONNECTIONS;
    // A connection that the operating system could not accept must not end the process.
    this.#server.on("error", () => {});
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", () => {});
      const rejection = this.#rejectionOf(request);
      const answer = `HTTP/1.1 ${rejection}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
      // Destroys the socket, because a client that keeps its end open would delay closing the server.
      if (rejection !== undefined) socket.end(answer, () => socket.destroy());
      else this.#sockets.handleUpgrade(request, socket, head, (client) => this.#serve(client));
    });
  }

  /** @throws {Error} of Node.js, with its code, if the port is not available */
  static async open(hub: InspectorHub, options: InspectorServerOptions): Promise<InspectorServer> {
    const server = new InspectorServer(hub, options);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.#server.once("error", reject).listen(options.port, LOOPBACK, resolve);
    await promise;
    server.#server.off("error", reject);
    return server;
  }

  /** The address that a client connects to. */
  get url(): string {
    return `ws://${this.#host}/${this.#id}`;
  }

  get #host(): string {
    return `${LOOPBACK}:${(this.#server.address() as AddressInfo).port}`;
  }

  #rejectionOf(request: IncomingMessage): string | undefined {
    if (!isAllowed(request)) return "403 Forbidden";
    if (request.url !== `/${this.#id}`) return "404 Not Found";
    return this.#hub.hasClient ? "409 Conflict" : undefined;
  }

  #serve(socket: WebSocket): void {
    const client: InspectorClient = {
      send: (text) => {
        if (socket.bufferedAmount > MAX_UNREAD_BYTES) socket.terminate();
        else if (socket.readyState === socket.OPEN) socket.send(text);
      },
    };
    socket.on("message", (data, isBinary) => {
      // An error in a message ends only the connection that sent it.
      if (!isBinary)
        ignoreOutcome(
          () => this.#hub.receive(data.toString()),
          () => socket.terminate(),
        );
    });
    // A `close` event follows.
    socket.on("error", () => {});
    socket.on("close", () => this.#hub.detach(client));
    this.#hub.attach(client);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method, url = "" } = request;
    const body = isAllowed(request) && method === "GET" ? this.#bodyFor(url) : undefined;
    response.writeHead(body === undefined ? 403 : 200, {
      "Content-Type": "application/json; charset=UTF-8",
      "X-Content-Type-Options": "nosniff",
    });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  }

  #bodyFor(url: string): unknown {
    if (url === "/json/version") return { Browser: "glovebox", "Protocol-Version": PROTOCOL };
    if (url !== "/json" && url !== "/json/list") return undefined;
    const frontend = `devtools://devtools/bundled/js_app.html?experiments=true&v8only=true&ws=${this.#host}/${this.#id}`;
    return [
      {
        description: "glovebox",
        devtoolsFrontendUrl: frontend,
        id: this.#id,
        title: this.#title,
        type: "node",
        url: "glovebox:///",
        webSocketDebuggerUrl: this.url,
      },
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#sockets.clients) client.terminate();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }
}
