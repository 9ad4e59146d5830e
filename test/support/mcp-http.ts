// The upstream test server over HTTP, in this process, and a server that answers each request as the test specifies.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { serve } from "@hono/node-server";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { createToolServer, type ToolEvents } from "./mcp-tools.ts";

export interface HttpServer extends AsyncDisposable {
  readonly url: string;
}

export interface ToolHttpServer extends HttpServer {
  readonly events: ToolEvents;
  /** Headers of the requests, oldest first. */
  readonly headers: Headers[];
  /** Tells who listens that the tools have changed. */
  changed(): void;
}

const urlOf = (address: AddressInfo | string | null): string => `http://127.0.0.1:${(address as AddressInfo).port}/mcp`;

/** Listens on a port. Default: any free port. Closing it ends its connections. */
export async function startToolServer(port = 0): Promise<ToolHttpServer> {
  const events: ToolEvents = { aborted: [], begun: [], metas: [] };
  const headers: Headers[] = [];
  const handler = createMcpHandler(createToolServer(events));
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  const fetch = (request: Request): Promise<Response> => {
    headers.push(request.headers);
    return handler.fetch(request);
  };
  const server = serve({ fetch, port, hostname: "127.0.0.1" }, resolve);
  const url = urlOf(await promise);
  return {
    url,
    events,
    headers,
    changed: () => handler.notify.toolsChanged(),
    [Symbol.asyncDispose]: async () => {
      await handler.close();
      (server as unknown as { closeAllConnections(): void }).closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

export interface RpcRequest {
  readonly id?: string | number;
  readonly method: string;
  readonly params?: { readonly [name: string]: unknown };
}

export type Answer = (rpc: RpcRequest, response: ServerResponse, request: IncomingMessage) => unknown;

/** Answers a request of JSON-RPC. */
export function sendResult(response: ServerResponse, { id }: RpcRequest, result: unknown): void {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
}

/**
 * A 2025-era server without sessions that does what the test says, and else what is needed to come that far. What `answer` returns is the
 * result; undefined where it has answered itself, or will not.
 */
export async function startScriptedServer(answer: Answer): Promise<HttpServer> {
  const server = createServer((request, response) => {
    void (async () => {
      if (request.method !== "POST") return response.writeHead(405).end();
      const rpc = JSON.parse(await text(request)) as RpcRequest;
      const known = await answer(rpc, response, request);
      if (known !== undefined) return sendResult(response, rpc, known);
      if (response.writableEnded || response.headersSent) return undefined;
      if (rpc.id === undefined) return response.writeHead(202).end();
      if (rpc.method === "initialize") {
        const serverInfo = { name: "scripted", version: "0" };
        return sendResult(response, rpc, { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo });
      }
      if (rpc.method === "server/discover") {
        response.setHeader("content-type", "application/json");
        const error = { code: -32_601, message: "Method not found" };
        return response.end(JSON.stringify({ jsonrpc: "2.0", id: rpc.id, error }));
      }
      return undefined;
    })();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: urlOf(server.address()),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
