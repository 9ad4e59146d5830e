// WebSocket servers on loopback: the package `ws` for correct servers, raw sockets for servers that violate the protocol, and a
// tool that uses them.
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import type { EgressOptions } from "../../src/host/capabilities/fetch/egress-policy.ts";
import type { GloveboxOptions } from "../../src/host/config/glovebox-options.ts";
import type { CallContext, ToolResult } from "../../src/host/contract/tool-call.ts";
import { onLoopback } from "./egress.ts";
import { makeGlovebox } from "./host-zone.ts";

export interface SocketServer {
  readonly port: number;
  /** `ws://…` */
  readonly url: string;
  /** Connections that are open now. */
  readonly open: () => number;
}

function count(sockets: Set<unknown>, socket: Socket): void {
  sockets.add(socket);
  socket.on("error", () => {});
  socket.on("close", () => sockets.delete(socket));
}

/** A server of `ws`; `use` is called with each of its sockets. Closed when the test is over. */
export async function serveWebSocket(
  use: (socket: WebSocket, request: IncomingMessage) => void,
  options: ConstructorParameters<typeof WebSocketServer>[0] = {},
): Promise<SocketServer> {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, ...options });
  const sockets = new Set<unknown>();
  server.on("connection", (socket, request) => {
    count(sockets, request.socket);
    socket.on("error", () => {});
    use(socket, request);
  });
  await once(server, "listening");
  onTestFinished(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `ws://127.0.0.1:${port}`, open: () => sockets.size };
}

/** Sends each message back as it came. */
export const echo = (socket: WebSocket): void => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
};

/** The answer of a correct server to the request. */
export function acceptText(request: string, more: readonly string[] = []): string {
  const key = /sec-websocket-key: (.*)\r\n/i.exec(request)?.[1] ?? "";
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  const head = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"];
  return `${[...head, `Sec-WebSocket-Accept: ${accept}`, ...more].join("\r\n")}\r\n\r\n`;
}

/** A server of raw bytes: `answer` is called with the request's head, once that is whole. Closed when the test is over. */
export async function serveRaw(answer: (socket: Socket, request: string) => void): Promise<SocketServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    count(sockets, socket);
    let head = "";
    const read = (chunk: Buffer): void => {
      head += chunk.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.off("data", read);
      answer(socket, head);
    };
    socket.on("data", read);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `ws://127.0.0.1:${port}`, open: () => sockets.size };
}

/** Accepts the handshake, then sends the bytes. */
export const serveFrames = (...frames: readonly (readonly number[] | Buffer)[]): Promise<SocketServer> =>
  serveRaw((socket, request) => {
    socket.write(acceptText(request));
    for (const frame of frames) socket.write(Buffer.from(frame as Buffer));
    socket.resume();
  });

/** In tools: collects the events of a WebSocket until it is closed, by `name: detail`. */
export const RECORD = `
  const record = (socket, use = {}) => new Promise((resolve) => {
    const events = [];
    socket.addEventListener("open", () => { events.push("open"); use.open?.(socket); });
    socket.addEventListener("message", (event) => { events.push("message: " + (typeof event.data === "string" ? event.data : event.data.byteLength ?? event.data.size)); use.message?.(event, socket); });
    socket.addEventListener("error", (event) => { events.push("error: " + (event.error?.code ?? event.error?.name) + ": " + event.message); });
    socket.addEventListener("close", ({ code, reason, wasClean }) => { events.push("close: " + code + " " + reason + " " + wasClean); resolve(events); });
  });
`;

export interface SocketTools extends AsyncDisposable {
  /** Runs a tool whose body is this text, with `url`, `ctx` and `record`. */
  run(body: string, url: string, imports?: string, context?: CallContext): Promise<ToolResult>;
}

/** Runs any body that is text: to build a tool for each would take most of the time of these tests. */
const RUNS_ANY_BODY = `${RECORD}
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  export default ({ url, body }, ctx) => new AsyncFunction("url", "ctx", "record", body)(url, ctx, record);`;

export async function makeSocketTools(
  egress: Partial<EgressOptions> = {},
  more: GloveboxOptions = {},
): Promise<SocketTools> {
  const ports = Array.from({ length: 0xffff - 1_024 }, (_, index) => index + 1_025);
  const glovebox = await makeGlovebox({
    egress: { allow: onLoopback("127.0.0.1"), ports, ...egress },
    ...more,
    engine: { dynamicCode: true },
  });
  const grant = ["fetch", "secrets"];
  let added = 0;
  await glovebox.addTool({ name: "any", source: RUNS_ANY_BODY }, { grant });
  return {
    async run(body, url, imports, context = {}) {
      if (imports === undefined) {
        return await glovebox.execute({ id: "c1", toolName: "any", arguments: { url, body } }, context);
      }
      added += 1;
      const toolName = `tool${added}`;
      const source = `${imports}\n${RECORD}\nexport default async ({ url }, ctx) => { ${body} };`;
      await glovebox.addTool({ name: toolName, source }, { grant });
      return await glovebox.execute({ id: "c1", toolName, arguments: { url } }, context);
    },
    [Symbol.asyncDispose]: () => glovebox.close(),
  };
}
