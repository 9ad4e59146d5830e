// The server for DevTools: HTTP and one WebSocket on loopback, at a path that cannot be guessed. A client of it may run code in the tool's
// isolate, and nowhere else.
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { ignoreOutcome } from "../util/host-callback.ts";
import type { InspectorClient, InspectorHub } from "./inspector-hub.ts";

const LOOPBACK = "127.0.0.1";
/** Of one message from a client: an expression, a breakpoint, a script that was edited. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
/** What a client does not read is not kept for it. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;
const PROTOCOL = "1.3";
/** A browser needs a few. */
const MAX_CONNECTIONS = 32;
/** Time in ms that a client may take to send a request. */
const REQUEST_MS = 10_000;

export interface InspectorServerOptions {
  /** 0 for any that is free. */
  readonly port: number;
  /** What the client's list of targets calls it. */
  readonly title: string;
}

/**
 * Only a name that no name server has a say in: otherwise a web page could have its own name point here (DNS rebinding), and would be let
 * in by its browser.
 */
export function isLocalHost(host: string | undefined): boolean {
  if (host === undefined) return false;
  const name = host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || isIP(name) !== 0;
}

/**
 * Only the browser's own DevTools send an origin that is accepted; editors and scripts send none. Every other origin is a page, a file or
 * an extension.
 */
const isAllowedOrigin = (origin: string | undefined): boolean =>
  origin === undefined || /^(chrome-)?devtools:\/\/devtools$/.test(origin);

const isAllowed = ({ headers }: IncomingMessage): boolean =>
  isLocalHost(headers.host) && isAllowedOrigin(headers.origin);

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
    // A connection that the system could not accept is no reason to end.
    this.#server.on("error", () => {});
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", () => {});
      const refusal = this.#refusal(request);
      const answer = `HTTP/1.1 ${refusal}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
      // Destroyed from this side: a client that keeps its end open would hold up the close of the server.
      if (refusal !== undefined) socket.end(answer, () => socket.destroy());
      else this.#sockets.handleUpgrade(request, socket, head, (client) => this.#serve(client));
    });
  }

  /** @throws {Error} of Node's, with its code, when the port cannot be had */
  static async open(hub: InspectorHub, options: InspectorServerOptions): Promise<InspectorServer> {
    const server = new InspectorServer(hub, options);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.#server.once("error", reject).listen(options.port, LOOPBACK, resolve);
    await promise;
    server.#server.off("error", reject);
    return server;
  }

  /** Where a client connects to. */
  get url(): string {
    return `ws://${this.#host}/${this.#id}`;
  }

  get #host(): string {
    return `${LOOPBACK}:${(this.#server.address() as AddressInfo).port}`;
  }

  #refusal(request: IncomingMessage): string | undefined {
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
      // Whatever a message does here, it ends at most its own connection.
      if (!isBinary)
        ignoreOutcome(
          () => this.#hub.receive(data.toString()),
          () => socket.terminate(),
        );
    });
    // `close` follows.
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
