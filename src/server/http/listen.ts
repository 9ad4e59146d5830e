// Listens on the port of the server, with limits of connections.
import { createServer, type Server } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { ToolError } from "../../host/index.ts";
import type { ServerConfig } from "../config/server-options.ts";
import { PEER_PATH, type PeerServer } from "../replicas/peers/peer-server.ts";
import type { createApp } from "./app.ts";
import { answerAdapterError, answerUnparsed } from "./unparsed-requests.ts";
import type { UnreadResponses } from "./unread-responses.ts";

/** Limits of connections, in ms and in number. They stop clients that send slowly or not at all. */
const CONNECTION_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // The application answers, with a body.
  requireHostHeader: false,
} as const;
const MAX_CONNECTIONS = 4_096;
/** Streams that may be open at a time. The other connections remain for requests, also for those of health checks. */
export const MAX_STREAMS: number = MAX_CONNECTIONS / 2;

/** Codes for a host that no port can be opened at. */
const WRONG_HOST: ReadonlySet<string> = new Set(["EADDRNOTAVAIL", "ENOTFOUND", "EAI_AGAIN", "EAFNOSUPPORT"]);

interface ListenDependencies {
  /** Receives requests of other replicas; undefined for a server without any. */
  readonly peers: Pick<PeerServer, "receive"> | undefined;
  /** Ends connections whose clients do not read. */
  readonly unread: Pick<UnreadResponses, "watch">;
  /** Receives errors that are not the request's fault. */
  readonly onError: (error: unknown, requestId: string) => void;
}

/**
 * Listens.
 * @throws {ToolError} PARAM_INVALID if the address is in use or not available
 */
export async function listen(
  app: ReturnType<typeof createApp>,
  { host, port }: ServerConfig,
  { peers, unread, onError }: ListenDependencies,
): Promise<Server> {
  const listener = getRequestListener(app.fetch, {
    // The Request and Response of a program that embeds a server stay its own. The command line turns on the faster ones.
    overrideGlobalObjects: false,
    errorHandler: (thrown) => answerAdapterError(thrown, onError),
  });
  const server = createServer(CONNECTION_OPTIONS, (request, response) => {
    // Requests of other replicas do not reach the application.
    if (peers !== undefined && request.url === PEER_PATH && request.method === "POST") peers.receive(request, response);
    else void listener(request, response);
  });
  server.maxConnections = MAX_CONNECTIONS;
  unread.watch(server);
  answerUnparsed(server, CONNECTION_OPTIONS);
  server.listen(port, host);
  await new Promise<void>((resolve, reject) => {
    server.once("listening", resolve);
    server.once("error", ({ code }: NodeJS.ErrnoException) => {
      const why = code === "EADDRINUSE" ? "is in use" : `is not available (${code})`;
      if (code !== undefined && WRONG_HOST.has(code))
        reject(
          new ToolError(
            "PARAM_INVALID",
            `options.host: ${JSON.stringify(host)} is not an address of this machine (${code})`,
          ),
        );
      else reject(new ToolError("PARAM_INVALID", `options.port: Port ${port} of ${host} ${why}`));
    });
  });
  return server;
}
