// Requests of MCP clients as they are on the wire, for tests of the server, and a real HTTP server for a handler.
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import type { McpHandler } from "../../src/host/mcp/server/http/handler.ts";

const ACCEPT = "application/json, text/event-stream";
const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
const MODERN = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

type HeaderFields = Readonly<Record<string, string>>;
type Send = (url: URL | string, init: RequestInit) => Promise<Response>;

export interface RawRequest {
  readonly body: string;
  readonly headers: HeaderFields;
}

const message = (method: string, params: object): string => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });

/** A request of a client of 2026-07-28. */
export function modernRequest(method: string, params: object = {}, headers: HeaderFields = {}): RawRequest {
  const named = "name" in params ? { "mcp-name": String(params.name) } : {};
  return {
    body: message(method, { ...params, _meta: MODERN }),
    headers: {
      "content-type": "application/json",
      accept: ACCEPT,
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...named,
      ...headers,
    },
  };
}

export const modernCall = (name: string, headers: HeaderFields = {}): RawRequest =>
  modernRequest("tools/call", { name, arguments: {} }, headers);

/** A request of a client of 2025. */
export const legacyRequest = (method: string, params: object = {}, headers: HeaderFields = {}): RawRequest => ({
  body: message(method, params),
  headers: { "content-type": "application/json", accept: ACCEPT, ...headers },
});

export const initializeRequest = (headers: HeaderFields = {}): RawRequest =>
  legacyRequest("initialize", INITIALIZE, headers);

export const post = (url: URL | string, { body, headers }: RawRequest, send: Send = fetch): Promise<Response> =>
  send(url, { method: "POST", body, headers });

/** Begins a session and returns its header. */
export async function beginSession(url: URL | string, headers: HeaderFields = {}): Promise<HeaderFields> {
  const response = await post(url, initializeRequest(headers));
  await response.text();
  return { ...headers, "mcp-session-id": response.headers.get("mcp-session-id") ?? `none (${response.status})` };
}

/** Opens the stream on which a client of 2025 listens. */
export const listenInSession = (url: URL | string, session: HeaderFields): Promise<Response> =>
  fetch(url, { headers: { ...session, accept: "text/event-stream" } });

/** Opens a stream on which a client of 2026-07-28 listens. */
export const listenModern = (url: URL | string, headers: HeaderFields = {}): Promise<Response> =>
  post(url, modernRequest("subscriptions/listen", { notifications: { toolsListChanged: true } }, headers));

export interface ServedHandler extends AsyncDisposable {
  readonly url: URL;
}

/** Serves a handler over real HTTP on a free port, and ends with all of its connections. */
export async function serveHandler(handler: McpHandler): Promise<ServedHandler> {
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  const server = serve({ fetch: handler.fetch, port: 0, hostname: "127.0.0.1" }, resolve);
  const { port } = await promise;
  return {
    url: new URL(`http://127.0.0.1:${port}/mcp`),
    [Symbol.asyncDispose]: async () => {
      await handler.close();
      (server as unknown as { closeAllConnections(): void }).closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
