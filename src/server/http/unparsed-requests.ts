// Answers the requests that do not reach the application, because Node's HTTP parser or its adapter rejects them, in the form of all other errors.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { RequestError as AdapterError } from "@hono/node-server";
import { createId } from "../ids.ts";
import { type ErrorResponse, SECURITY_HEADERS, toErrorResponse } from "./error-response.ts";
import { RequestError } from "./request-error.ts";

/** Limits of Node's parser. */
export interface ParserLimits {
  /** Longest time in ms until the headers of a request are complete. */
  readonly headersTimeout: number;
  /** Longest time in ms until a request is complete. */
  readonly requestTimeout: number;
  /** Bytes of a URL and the headers together, and of the extensions of chunks. */
  readonly maxHeaderSize: number;
}

/** Returns what a client learns about a message that Node's parser rejects, by the code of the parser's error. */
function toRejection(code: string | undefined, limits: ParserLimits): RequestError {
  const { headersTimeout, requestTimeout, maxHeaderSize } = limits;
  if (code === "HPE_HEADER_OVERFLOW")
    return new RequestError(
      "HEADERS_TOO_LARGE",
      `Expected a URL and headers of at most ${maxHeaderSize} bytes together`,
    );
  if (code === "HPE_CHUNK_EXTENSIONS_OVERFLOW")
    return new RequestError("TOO_LARGE", `Expected extensions of chunks of at most ${maxHeaderSize} bytes together`);
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return new RequestError(
      "REQUEST_TIMEOUT",
      `Expected the headers of a request within ${headersTimeout} ms, and all of it within ${requestTimeout} ms`,
    );
  return new RequestError("MALFORMED", "Expected a request of HTTP/1.1");
}

/** A request whose response has not been sent completely. */
interface OpenRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Returns the response to a request that no handler has received, with all its headers. */
function toAnswer(error: unknown, requestId = createId("request")): ErrorResponse & { readonly text: string } {
  const problem = toErrorResponse(error, requestId);
  const headers = {
    ...SECURITY_HEADERS,
    ...problem.headers,
    "content-type": "application/json",
    "x-request-id": requestId,
  };
  return { ...problem, headers, text: JSON.stringify(problem.body) };
}

/**
 * Returns the response to a request that the adapter cannot pass on, for example because its URL is invalid.
 * @param onError receives every other error
 */
export function answerAdapterError(thrown: unknown, onError: (error: unknown, requestId: string) => void): Response {
  const requestId = createId("request");
  const isMalformed = thrown instanceof AdapterError;
  if (!isMalformed) onError(thrown, requestId);
  const expected = "Expected a path that begins with a slash as the URL, and a valid Host header";
  const { status, headers, text } = toAnswer(isMalformed ? new RequestError("MALFORMED", expected) : thrown, requestId);
  return new Response(text, { status, headers });
}

/** Returns a whole response as it is sent, after which the connection ends. */
function toMessage(error: RequestError): string {
  const { status, headers, text } = toAnswer(error);
  const lines = Object.entries({
    ...headers,
    "content-length": String(Buffer.byteLength(text)),
    date: new Date().toUTCString(),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${text}`;
}

/** Ends a connection when everything has been sent. */
function endConnection(socket: Duplex & { destroySoon?: () => void }): void {
  if (socket.destroySoon === undefined) socket.end();
  else socket.destroySoon();
}

/** Calls a function when all these requests have their responses. */
function afterResponses(requests: readonly OpenRequest[], next: () => void): void {
  let waiting = requests.length;
  if (waiting === 0) next();
  for (const { response } of requests)
    response.once("close", () => {
      waiting -= 1;
      if (waiting === 0) next();
    });
}

/**
 * Answers messages that Node's parser rejects, requests with an expectation that the server does not know, and those to a proxy. Then the
 * connection ends, since the parser cannot tell where the next request would begin.
 */
export function answerUnparsed(server: Server, limits: ParserLimits): void {
  /** Requests of a connection in the order in which they are answered. */
  const open = new WeakMap<Duplex, Set<OpenRequest>>();
  /** Connections whose last message has been rejected. The parser reports the bytes that follow once more each. */
  const rejected = new WeakSet<Duplex>();

  server.on("request", (request, response) => {
    const { socket } = request;
    const requests = open.get(socket) ?? new Set<OpenRequest>();
    const entry = { request, response };
    open.set(socket, requests.add(entry));
    response.once("close", () => requests.delete(entry));
  });

  server.on("clientError", (thrown: NodeJS.ErrnoException, socket) => {
    if (rejected.has(socket)) return;
    rejected.add(socket);
    if (!socket.writable) return void socket.destroy();
    const requests = [...(open.get(socket) ?? [])];
    const last = requests.at(-1);
    // An error in a body concerns the request whose body it is. The requests before it are complete, and may have had an effect: each gets its
    // own response first, so that no client takes this one for theirs.
    const broken = last?.request.complete === false ? last : undefined;
    const before = requests.filter((one) => one !== broken);
    afterResponses(before, () => {
      if (socket.destroyed) return;
      // Half of a response cannot be taken back.
      if (socket.writable && broken?.response.headersSent !== true)
        socket.write(toMessage(toRejection(thrown.code, limits)));
      endConnection(socket);
    });
  });

  // Node closes the connection of such a request without a response if nothing handles it.
  server.on("connect", ({ socket }) => {
    // Node has removed its own listener, and an error without one would end the process.
    socket.on("error", () => {});
    const requests = [...(open.get(socket) ?? [])];
    if (requests.length > 0) {
      // Node has removed its listeners from the socket, also those that limit how long a client may read nothing, and those that end responses
      // with their connection. A connection that waited for responses would have no limit.
      for (const { response } of requests) response.destroy();
      return void socket.destroy();
    }
    if (socket.writable)
      socket.write(
        toMessage(
          new RequestError("METHOD_NOT_ALLOWED", "Expected a request to this server, which is not a proxy", {
            headers: { allow: "GET" },
          }),
        ),
      );
    endConnection(socket);
  });

  server.on("checkExpectation", (request, response) => {
    const { status, headers, text } = toAnswer(
      new RequestError("EXPECTATION_FAILED", 'Expected no Expect header, or "Expect: 100-continue"'),
    );
    response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(text), connection: "close" });
    response.end(request.method === "HEAD" ? undefined : text);
  });
}
