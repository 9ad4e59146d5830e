// The opening handshake of a WebSocket: an HTTP upgrade request over a connection that is checked like those of fetch. Redirects are not
// followed, and no extensions are offered.
import { createHash, randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { Client, Dispatcher } from "undici";
import type { ToolError } from "../../../sandbox/contract/errors.ts";
import { denied } from "../fetch/egress-policy.ts";
import { networkError } from "../fetch/network-errors.ts";
import { type HeaderList, headerOf } from "../fetch/request-headers.ts";
import { toPairs } from "../fetch/response-head.ts";

/** The GUID of RFC 6455, 1.3. */
const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const PROTOCOL_HEADER = "sec-websocket-protocol";
/** Headers of the handshake that only the host sets. A tool sets the protocols only. */
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
  throw denied("headers", `a tool may not set ${JSON.stringify(own[0])}: the host performs the handshake`);
}

/** Returns the protocols in the headers, in order. */
const protocolsOf = (headers: HeaderList): readonly string[] =>
  headers
    .filter(([name]) => name.toLowerCase() === PROTOCOL_HEADER)
    .flatMap(([, value]) => value.split(",").map((protocol) => protocol.trim()));

export interface HandshakeOptions {
  readonly path: string;
  /** Headers with the values of secrets inserted. */
  readonly headers: HeaderList;
  /** Headers as the tool sent them. The chosen protocol is reported in this form, so that it contains no secret. */
  readonly toolHeaders: HeaderList;
  readonly signal: AbortSignal;
}

export interface Upgraded {
  /** Owned by the caller, which destroys it. */
  readonly socket: Socket;
  /** The protocol that the server chose, as the tool sent it; empty if the tool offered none. */
  readonly protocol: string;
}

/**
 * Sends the handshake and checks the answer.
 * @throws {ToolError} TOOL_FAILED when the answer is not valid by RFC 6455, CAPABILITY_DENIED when the value of a secret is not valid in a
 *   protocol name; also errors of the connection
 */
export async function upgrade(client: Client, options: HandshakeOptions): Promise<Upgraded> {
  const { path, headers, toolHeaders, signal } = options;
  const offered = protocolsOf(headers);
  if (!offered.every((protocol) => TOKEN.test(protocol)) || new Set(offered).size < offered.length) {
    throw denied("headers", `${PROTOCOL_HEADER} must be a list of distinct tokens`);
  }
  const key = randomBytes(16).toString("base64");
  const own: HeaderList = [
    ["sec-websocket-version", "13"],
    ["sec-websocket-key", key],
  ];
  const { socket, head } = await dispatch(client, path, [...headers, ...own], signal);
  try {
    checkAnswer(head, key);
    return { socket, protocol: chosenProtocol(head, offered, protocolsOf(toolHeaders)) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

const failed = (reason: string): ToolError => networkError(`invalid WebSocket handshake from the server: ${reason}`);

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
      // The socket may fail before it has a reader. The reader receives the failure later.
      upgraded.on("error", () => {});
      if (status !== 101 || signal.aborted) {
        upgraded.destroy();
        reject(failed(`status ${status}`));
      } else resolve({ socket: upgraded, head: toPairs(controller.rawHeaders as never) });
    },
    onResponseStart(controller, status) {
      // Interim responses are ignored. The timeout of the handshake bounds their number.
      if (status < 200 && status !== 101) return;
      const hint = status >= 300 && status < 400 ? " (WebSockets do not follow redirects)" : "";
      const error = failed(`status ${status}${hint}`);
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

/** Validates the server's response (RFC 6455, 4.1). */
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
  if (tokens("upgrade").join(",") !== "websocket") throw failed("the Upgrade header is not websocket");
  if (!tokens("connection").includes("upgrade")) throw failed("the Connection header is not Upgrade");
  const accept = createHash("sha1").update(`${key}${ACCEPT_SALT}`).digest("base64");
  const accepts = head.filter(([name]) => name.toLowerCase() === "sec-websocket-accept");
  if (accepts.length !== 1 || accepts[0]?.[1].trim() !== accept)
    throw failed("the Sec-WebSocket-Accept header is wrong");
  if ((headerOf(head, "sec-websocket-extensions") ?? "") !== "")
    throw failed("it uses extensions, but none were offered");
}

/** @param toolProtocols the offered protocols as the tool sent them, in the order of `offered` */
function chosenProtocol(head: HeaderList, offered: readonly string[], toolProtocols: readonly string[]): string {
  const chosen = head.filter(([name]) => name.toLowerCase() === PROTOCOL_HEADER).map(([, value]) => value.trim());
  if (chosen.length > 1) throw failed("it chooses more than one protocol");
  const [protocol] = chosen;
  if (offered.length === 0) {
    if (protocol === undefined) return "";
    throw failed("it chooses a protocol, but none were offered");
  }
  if (protocol === undefined) throw failed("it chooses none of the offered protocols");
  const index = offered.indexOf(protocol);
  if (index < 0) throw failed("it chooses a protocol that was not offered");
  return toolProtocols[index] ?? "";
}
