// Listens on the port of the server, with limits of connections.
import { createServer, type RequestListener, type Server } from "node:http";
import { type ServerType, serve } from "@hono/node-server";
import { ToolError } from "../../host/index.ts";
import type { ServerConfig } from "../config/server-options.ts";
import { PEER_PATH, type PeerServer } from "../replicas/peers/peer-server.ts";
import type { createApp } from "./app.ts";
import type { UnreadResponses } from "./unread-responses.ts";

/** Limits of connections, in ms and in number. They stop clients that send slowly or not at all. */
const CONNECTION_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
} as const;
const MAX_CONNECTIONS = 4_096;
/** Streams that may be open at a time. The other connections remain for requests, also for those of health checks. */
export const MAX_STREAMS: number = MAX_CONNECTIONS / 2;

/** Codes for a host that no port can be opened at. */
const WRONG_HOST: ReadonlySet<string> = new Set(["EADDRNOTAVAIL", "ENOTFOUND", "EAI_AGAIN", "EAFNOSUPPORT"]);

/** Creates a server whose requests of other replicas do not reach the application. */
const createServerWith = (peers: Pick<PeerServer, "receive">): typeof createServer =>
  // The types of `createServer` are several; this is the one that is called.
  ((options: object, listener: RequestListener) =>
    createServer(options, (request, response) => {
      if (request.url === PEER_PATH && request.method === "POST") peers.receive(request, response);
      else listener(request, response);
    })) as typeof createServer;

/**
 * @param peers receives requests of other replicas; undefined for a server without any
 * @param unread ends connections whose clients do not read
 * @throws {ToolError} PARAM_INVALID if the address is in use or not available
 */
export async function listen(
  app: ReturnType<typeof createApp>,
  { host, port }: ServerConfig,
  peers: Pick<PeerServer, "receive"> | undefined,
  unread: Pick<UnreadResponses, "watch">,
): Promise<ServerType> {
  // The Request and Response of a program that embeds a server stay its own. The command line turns on the faster ones.
  const overrideGlobalObjects = false;
  const server = serve({
    fetch: app.fetch,
    hostname: host,
    port,
    serverOptions: CONNECTION_OPTIONS,
    overrideGlobalObjects,
    ...(peers === undefined ? {} : { createServer: createServerWith(peers) }),
  });
  server.maxConnections = MAX_CONNECTIONS;
  unread.watch(server as Server);
  await new Promise<void>((resolve, reject) => {
    server.once("listening", resolve);
    server.once("error", ({ code }: NodeJS.ErrnoException) => {
      const why = code === "EADDRINUSE" ? "is in use" : `is not available (${code})`;
      if (code !== undefined && WRONG_HOST.has(code))
        reject(
          new ToolError(
            "PARAM_INVALID",
            `options.host: ${JSON.stringify(host)} is no address of this machine (${code})`,
          ),
        );
      else reject(new ToolError("PARAM_INVALID", `options.port: Port ${port} of ${host} ${why}`));
    });
  });
  return server;
}
