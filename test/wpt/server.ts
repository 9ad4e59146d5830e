// The server that the web-platform tests of WebSocket and EventSource talk to, on a free port of 127.0.0.1: the WebSocket endpoints and
// event streams that these tests name, which the suite's own server implements in Python.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type WebSocket, WebSocketServer } from "ws";

export interface WptServer extends AsyncDisposable {
  /** `127.0.0.1:PORT` */
  readonly host: string;
  readonly port: number;
}

const HOST = "127.0.0.1";
/** The server's data of RFC 6455, section 1.3. */
const ACCEPT_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const GOODBYE = "Goodbye";
const CREDENTIALS = `Basic ${Buffer.from("foo:bar").toString("base64")}`;
/** Pauses of endpoints whose names state them, in ms. */
const PAUSES: { readonly [path: string]: number } = { "/handshake_sleep_2": 2_000, "/sleep_10_v13": 10_000 };
const ACKNOWLEDGE_MS = 100;
const CLOSE_LATE_MS = 1_000;
const EVENTS_EVERY_MS = 2_000;
/** The stream of eventsource/resources/message2.py: fields that count, and fields that do not. */
const MIXED_EVENTS = "data:msg\ndata: msg\n\n:\nfalsefield:msg\n\nfalsefield:msg\nData:data\n\ndata\n\ndata:end\n\n";

type UseSocket = (socket: WebSocket, request: IncomingMessage, url: URL) => void;

const urlOf = (request: IncomingMessage): URL => new URL(request.url ?? "/", `http://${HOST}`);
const queryOf = (request: IncomingMessage): string => /\?(.*)$/s.exec(request.url ?? "")?.[1] ?? "";

function echo(socket: WebSocket): void {
  socket.on("message", (data, isBinary) => {
    socket.send(data, { binary: isBinary });
    if (!isBinary && String(data) === GOODBYE) socket.close(1_000);
  });
}

function closeOnGoodbye(socket: WebSocket): void {
  socket.on("message", (data, isBinary) => {
    if (!isBinary && String(data) === GOODBYE) socket.close(1_000);
  });
}

/** Sends a message and closes, as a handler that returns. */
const sendOnce =
  (textOf: (request: IncomingMessage) => string): UseSocket =>
  (socket, request) => {
    socket.send(textOf(request));
    socket.close(1_000);
  };

const SOCKETS: { readonly [path: string]: UseSocket } = {
  "/echo": echo,
  "/sleep_10_v13": echo,
  "/echo_exit": closeOnGoodbye,
  "/echo_close_data": closeOnGoodbye,
  "/echo-query": sendOnce(queryOf),
  "/echo-query_v13": sendOnce((request) => queryOf(request).split("?")[0] ?? ""),
  "/echo-cookie": sendOnce(({ headers }) => headers.cookie ?? "(none)"),
  "/origin": sendOnce(({ headers }) => headers.origin ?? "null"),
  "/referrer": sendOnce(({ headers }) => headers.referer ?? "MISSING AS PER FETCH"),
  "/protocol": sendOnce(({ headers }) => headers["sec-websocket-protocol"] ?? ""),
  "/protocol_array": sendOnce(({ headers }) => headers["sec-websocket-protocol"]?.split(",")[0] ?? ""),
  "/basic_auth": (socket) => socket.close(1_000),
  "/handshake_no_extensions": (socket) => socket.close(1_000),
  "/handshake_no_protocol": (socket) => socket.close(1_000),
  "/handshake_sleep_2": (socket) => socket.close(1_000),
  "/set-cookie": () => {},
  "/set-cookie_http": () => {},
  "/empty-message": (socket) =>
    socket.once("message", (data) => {
      socket.send(String(data) === "" ? "pass" : "fail");
      socket.close(1_000);
    }),
  "/receive-many-with-backpressure": (socket) =>
    socket.on("message", (data) => {
      const { length } = String(data);
      socket.pause();
      setTimeout(() => {
        socket.send(String(length));
        socket.resume();
      }, ACKNOWLEDGE_MS);
    }),
  "/remote-close": (socket, _request, { searchParams }) => {
    const code = searchParams.get("code");
    if (searchParams.has("abrupt")) {
      socket.ping("ping");
      setImmediate(() => socket.terminate());
    } else if (code === null) socket.close();
    else socket.close(Number(code), searchParams.get("reason") ?? "");
  },
};

/** Endpoints that answer the handshake with bytes of their own. */
const RAW: { readonly [path: string]: (socket: Duplex, request: IncomingMessage) => void } = {
  "/invalid": (socket) => socket.end("FOO BAR BAZ\r\n\r\n"),
  "/wrong_accept_key": (socket) => socket.end(acceptText("thisisawrongacceptkey")),
  // Sends what the client sends as it is, so that the client gets frames that it wrote itself: masked, which fails the connection.
  "/echo_raw": (socket, request) => {
    socket.write(acceptText(acceptKeyOf(request)));
    socket.on("data", (chunk: Buffer) => socket.write(chunk));
  },
  // A protocol, also for a client that requested none: a failure.
  "/handshake_protocol": (socket, request) => {
    socket.write(acceptText(acceptKeyOf(request), "Sec-WebSocket-Protocol: foobar\r\n"));
    socket.once("data", () => socket.end());
  },
  "/delayed-passive-close": (socket, request) => {
    socket.write(acceptText(acceptKeyOf(request)));
    socket.once("data", (frame: Buffer) => {
      setTimeout(() => socket.end(unmask(frame)), CLOSE_LATE_MS);
    });
  },
  // The head and a close frame (1001, "PASS") in the same packet.
  "/simple_handshake": (socket, request) => {
    const frame = Buffer.concat([Buffer.from([0x88, 6, 1_001 >> 8, 1_001 & 0xff]), Buffer.from("PASS")]);
    socket.write(Buffer.concat([Buffer.from(acceptText(acceptKeyOf(request))), frame]));
    socket.once("data", () => socket.end());
  },
};

/** Returns the client's close frame without its mask. The tests' reasons are short, and the frame arrives in one piece. */
function unmask(frame: Buffer): Buffer {
  const mask = frame.subarray(2, 6);
  const body = frame.subarray(6, 6 + ((frame[1] ?? 0) & 0x7f)).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([Buffer.from([0x88, body.length]), body]);
}

const acceptKeyOf = ({ headers }: IncomingMessage): string =>
  createHash("sha1").update(`${headers["sec-websocket-key"]}${ACCEPT_GUID}`).digest("base64");

function acceptText(key: string, more = ""): string {
  const head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
  return `${head}Sec-WebSocket-Accept: ${key}\r\n${more}\r\n`;
}

/** Returns the protocol that an endpoint chooses; false for none. */
function chooseProtocol(protocols: Set<string>, { url }: IncomingMessage): string | false {
  const path = url?.replace(/\?.*/s, "");
  if (path === "/protocol" || path === "/protocol_array") return [...protocols][0] ?? false;
  return path === "/echo" && protocols.has("echo") ? "echo" : false;
}

function createSocketServers(): (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void> {
  const options = { noServer: true, handleProtocols: chooseProtocol } as const;
  const compressed = new WebSocketServer({ ...options, perMessageDeflate: true });
  const plain = new WebSocketServer(options);
  for (const server of [compressed, plain]) {
    server.on("headers", (headers, request) => {
      const { pathname, search } = urlOf(request);
      if (pathname === "/set-cookie") headers.push(`Set-Cookie: ws_test_${search.slice(1)}=test; Path=/`);
      if (pathname === "/set-cookie_http")
        headers.push(`Set-Cookie: ws_test_${search.slice(1)}=test; Path=/; HttpOnly`);
    });
  }
  return async (request, socket, head) => {
    socket.on("error", () => {});
    const url = urlOf(request);
    const use = SOCKETS[url.pathname];
    const raw = RAW[url.pathname];
    if (raw !== undefined) return raw(socket, request);
    if (url.pathname === "/basic_auth" && request.headers.authorization !== CREDENTIALS) {
      socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nWWW-Authenticate: Basic realm="camelot"\r\n\r\n');
      return;
    }
    if (use === undefined) {
      socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    await sleep(PAUSES[url.pathname] ?? 0);
    const server = /no_extensions|backpressure/.test(url.pathname) ? plain : compressed;
    server.handleUpgrade(request, socket, head, (client) => {
      client.on("error", () => {});
      use(client, request, url);
    });
  };
}

/** Percent-decoded as bytes, since the tests send bytes that are no UTF-8. */
function bytesOf(query: string, name: string, initial: string): Buffer {
  const pair = query.split("&").find((each) => each.split("=")[0] === name);
  if (pair === undefined) return Buffer.from(initial);
  const text = pair.slice(name.length + 1).replaceAll("+", " ");
  const raw = Buffer.from(text).toString("latin1");
  return Buffer.from(
    raw.replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    "latin1",
  );
}

type Answer = (request: IncomingMessage, response: ServerResponse, query: string) => void | Promise<void>;

const sendEvents = (response: ServerResponse, body: string | Buffer, status = 200): void => {
  response.writeHead(status, { "content-type": "text/event-stream" }).end(body);
};

const EVENT_STREAMS: { readonly [file: string]: Answer } = {
  "message.py": async (_request, response, query) => {
    await sleep(Number(bytesOf(query, "sleep", "0").toString()));
    const end = bytesOf(query, "newline", "").toString() === "none" ? "\n" : "\n\n\n";
    response.writeHead(200, { "content-type": bytesOf(query, "mime", "text/event-stream").toString("latin1") });
    response.end(Buffer.concat([bytesOf(query, "message", "data: data"), Buffer.from(end)]));
  },
  "message2.py": async (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    while (!response.closed) {
      response.write(MIXED_EVENTS);
      await sleep(EVENTS_EVERY_MS);
    }
  },
  "last-event-id.py": ({ headers }, response, query) => {
    const id = headers["last-event-id"];
    if (typeof id === "string" && id !== "") {
      sendEvents(response, Buffer.concat([Buffer.from("data: "), Buffer.from(id, "latin1"), Buffer.from("\n\n")]));
      return;
    }
    const value = bytesOf(query, "idvalue", "\u2026");
    sendEvents(response, Buffer.concat([Buffer.from("id: "), value, Buffer.from("\nretry: 200\ndata: hello\n\n")]));
  },
  "last-event-id2.py": (_request, response, query) => {
    const type = bytesOf(query, "type", "1").toString();
    if (type === "2") sendEvents(response, "id: 1\ndata: 1\n\nid:\ndata:2\n\ndata:3\n\n");
    else if (type === "3") sendEvents(response, "id: 1\ndata: 1\n\nid\ndata:2\n\ndata:3\n\n");
    else sendEvents(response, "id: 1\ndata: 1\n\ndata: 2\n\nid: 2\ndata:3\n\ndata:4\n\n");
  },
  "status-error.py": (_request, response, query) => {
    const status = Number(bytesOf(query, "status", "404").toString());
    sendEvents(response, status === 204 || status === 205 ? "" : "data: data\n\n", status);
  },
  "accept.event_stream": ({ headers }, response) => sendEvents(response, `data: ${headers.accept}\n\n`),
  "cache-control.event_stream": ({ headers }, response) =>
    sendEvents(response, `data: ${headers["cache-control"]}\n\n`),
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = urlOf(request);
  if (pathname === "/common/redirect.py") {
    const status = Number(searchParams.get("status") ?? 302);
    response.writeHead(status, { location: searchParams.get("location") ?? "/" }).end();
    return;
  }
  const stream =
    EVENT_STREAMS[/^\/eventsource\/(?:dedicated-worker\/)?resources\/([\w.-]+)$/.exec(pathname)?.[1] ?? ""];
  if (stream === undefined) response.writeHead(404).end();
  else await stream(request, response, queryOf(request));
}

/** Starts the server. Disposing it ends every connection. */
export async function startWptServer(): Promise<WptServer> {
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });
  const upgrade = createSocketServers();
  const sockets = new Set<Duplex>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("upgrade", (request, socket, head) => void upgrade(request, socket, head).catch(() => socket.destroy()));
  server.listen(0, HOST);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    host: `${HOST}:${port}`,
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
