// The opening handshake of a WebSocket: an HTTP request to switch protocols, over a connection that is checked as one of fetch is. Redirects are not followed, and no extension is offered.
import { createHash, randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { Client, Dispatcher } from "undici";
import type { ToolError } from "../../../sandbox/contract/errors.ts";
import { denied } from "../fetch/egress-policy.ts";
import { networkError } from "../fetch/network-errors.ts";
import { type HeaderList, headerOf } from "../fetch/request-headers.ts";
import { toPairs } from "../fetch/response-head.ts";

/** RFC 6455, 1.3. */
const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const PROTOCOL_HEADER = "sec-websocket-protocol";
/** Headers of the handshake that the host makes; a tool states protocols only. */
const HOST_HEADERS: readonly string[] = [
  "sec-websocket-accept",
  "sec-websocket-extensions",
  "sec-websocket-key",
  "sec-websocket-version",
];
const TOKEN = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

/** @throws {ToolError} CAPABILITY_DENIED */
export function checkHandshakeHeaders(headers: HeaderList): void {
  const own = headers.find(([name]) => HOST_HEADERS.includes(name.toLowerCase()));
  if (own === undefined) return;
  throw denied("headers", `a tool may not set ${JSON.stringify(own[0])}: the handshake is the host's`);
}

/** Returns the protocols that the headers name, in order. */
const protocolsOf = (headers: HeaderList): readonly string[] =>
  headers
    .filter(([name]) => name.toLowerCase() === PROTOCOL_HEADER)
    .flatMap(([, value]) => value.split(",").map((protocol) => protocol.trim()));

export interface HandshakeOptions {
  readonly path: string;
  /** With the values of secrets in them. */
  readonly headers: HeaderList;
  /** The same as the tool states them: what it is told of the protocol has no secret in it. */
  readonly stated: HeaderList;
  readonly signal: AbortSignal;
}

export interface Upgraded {
  /** Belongs to the caller. */
  readonly socket: Socket;
  /** The protocol that the server chose, as the tool stated it; empty where it stated none. */
  readonly protocol: string;
}

/**
 * Sends the handshake and checks the answer.
 * @throws {ToolError} TOOL_FAILED when the server does not answer as RFC 6455 says, CAPABILITY_DENIED when a secret's value cannot stand in a
 *   protocol's name; what the connection throws
 */
export async function upgrade(client: Client, options: HandshakeOptions): Promise<Upgraded> {
  const { path, headers, stated, signal } = options;
  const asked = protocolsOf(headers);
  if (!asked.every((protocol) => TOKEN.test(protocol)) || new Set(asked).size < asked.length) {
    throw denied("headers", `${PROTOCOL_HEADER} is no list of different tokens`);
  }
  const key = randomBytes(16).toString("base64");
  const own: HeaderList = [
    ["sec-websocket-version", "13"],
    ["sec-websocket-key", key],
  ];
  const { socket, head } = await dispatch(client, path, [...headers, ...own], signal);
  try {
    checkAnswer(head, key);
    return { socket, protocol: chosenProtocol(head, asked, protocolsOf(stated)) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

const failed = (what: string): ToolError => networkError(`the server's answer is no WebSocket handshake: ${what}`);

function dispatch(
  client: Client,
  path: string,
  headers: HeaderList,
  signal: AbortSignal,
): Promise<{ readonly socket: Socket; readonly head: HeaderList }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ readonly socket: Socket; readonly head: HeaderList }>();
  let stop: ((reason: Error) => void) | undefined;
  const onAbort = (): void => {
    reject(signal.reason as Error);
    stop?.(signal.reason as Error);
  };
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(controller) {
      stop = (reason) => controller.abort(reason);
      if (signal.aborted) onAbort();
    },
    onRequestUpgrade(controller, status, _headers, socket) {
      const upgraded = socket as Socket;
      // It may fail before its reader is there; the reader is told.
      upgraded.on("error", () => {});
      if (status !== 101 || signal.aborted) {
        upgraded.destroy();
        reject(failed(`it has the status ${status}`));
      } else resolve({ socket: upgraded, head: toPairs(controller.rawHeaders as never) });
    },
    onResponseStart(controller, status) {
      // An interim response: the handshake has its time, however many of them come.
      if (status < 200 && status !== 101) return;
      const hint = status >= 300 && status < 400 ? ", and a WebSocket follows no redirect" : "";
      const error = failed(`it has the status ${status}${hint}`);
      reject(error);
      controller.abort(error);
    },
    onResponseData() {},
    onResponseEnd() {},
    onResponseError(_controller, error) {
      reject(error);
    },
  };
  signal.addEventListener("abort", onAbort, { once: true });
  const sent = { path, method: "GET", headers: headers.flat(), upgrade: "websocket" } as const;
  client.dispatch(sent as Dispatcher.DispatchOptions, handler);
  return promise.finally(() => signal.removeEventListener("abort", onAbort));
}

/** RFC 6455, 4.1, "the client MUST validate the server's response". */
function checkAnswer(head: HeaderList, key: string): void {
  const tokens = (name: string): readonly string[] =>
    head
      .filter(([each]) => each.toLowerCase() === name)
      .flatMap(([, value]) =>
        value
          .toLowerCase()
          .split(",")
          .map((token) => token.trim()),
      );
  if (tokens("upgrade").join(",") !== "websocket") throw failed("it upgrades to another protocol");
  if (!tokens("connection").includes("upgrade")) throw failed("its Connection header is not Upgrade");
  const accept = createHash("sha1").update(`${key}${ACCEPT_SALT}`).digest("base64");
  const accepts = head.filter(([name]) => name.toLowerCase() === "sec-websocket-accept");
  if (accepts.length !== 1 || accepts[0]?.[1].trim() !== accept) throw failed("its Sec-WebSocket-Accept is wrong");
  if ((headerOf(head, "sec-websocket-extensions") ?? "") !== "")
    throw failed("it has extensions, and none was offered");
}

function chosenProtocol(head: HeaderList, asked: readonly string[], stated: readonly string[]): string {
  const chosen = head.filter(([name]) => name.toLowerCase() === PROTOCOL_HEADER).map(([, value]) => value.trim());
  if (chosen.length > 1) throw failed("it chooses more than one protocol");
  const [protocol] = chosen;
  if (asked.length === 0) {
    if (protocol === undefined) return "";
    throw failed("it chooses a protocol, and none was offered");
  }
  if (protocol === undefined) throw failed("it chooses none of the offered protocols");
  const index = asked.indexOf(protocol);
  if (index < 0) throw failed("it chooses a protocol that was not offered");
  return stated[index] ?? "";
}
