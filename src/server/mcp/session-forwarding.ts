// Passes requests of MCP sessions on to the replica that has the session, its home. The id of a session begins with the id of its home.
import { sql } from "kysely";
import { reject, rejectUnavailable } from "../../host/mcp/server/http/rejection.ts";
import type { CallCaller } from "../calls/call-request.ts";
import type { Db } from "../database/open-database.ts";
import type { BodyBytes } from "../http/body-bytes.ts";
import { readBody } from "../http/request-body.ts";
import { aliveCondition } from "../replicas/liveness.ts";
import { type PeerRequestMessage, REQUEST_HEADERS, type ResponseMessage } from "../replicas/peers/messages.ts";
import { type Peer, type PeerClient, PeerExchange, PeerUnreachable } from "../replicas/peers/peer-client.ts";
import type { McpEndpoint } from "./mcp-endpoints.ts";

/** The id of a session: that of its home, and one of its own. */
const SESSION_ID = /^(replica-[\da-f-]{36})\.[\da-f-]{36}$/;
/** Statuses whose responses have no body. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);
const SESSION_NOT_FOUND = -32_001;

type EndpointName = PeerRequestMessage["endpoint"];

export interface SessionForwardingDependencies {
  readonly db: Db;
  readonly now: () => number;
  readonly peers: Pick<PeerClient, "open">;
  /** Id of this replica. */
  readonly replicaId: string;
  /** Largest body of a request in bytes. */
  readonly maxBodyBytes: number;
  /** Counts the bodies that are being passed on. */
  readonly bodies: Pick<BodyBytes, "keep">;
  /** Receives that a replica which lives cannot be reached. */
  readonly onError: (error: unknown) => void;
}

export class SessionForwarding implements Disposable {
  readonly #dependencies: SessionForwardingDependencies;
  readonly #stop = new AbortController();

  constructor(dependencies: SessionForwardingDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns an endpoint that answers requests of this replica's sessions, and passes others on. */
  wrap(endpoint: McpEndpoint, name: EndpointName): Pick<McpEndpoint, "fetch"> {
    return {
      fetch: async (request, caller) => {
        const home = await this.#homeOf(request.headers.get("mcp-session-id"));
        // A session without a home is not found here either.
        return home === undefined
          ? await endpoint.fetch(request, caller)
          : await this.#send(home, request, caller, name);
      },
    };
  }

  /** Returns the other replica that lives and has a session; undefined if there is none. */
  async #homeOf(sessionId: string | null): Promise<Peer | undefined> {
    const { db, replicaId: own } = this.#dependencies;
    const replicaId = SESSION_ID.exec(sessionId ?? "")?.[1];
    if (replicaId === undefined || replicaId === own) return undefined;
    const row = await db
      .selectFrom("replicas")
      .select("url")
      .where("id", "=", replicaId)
      .where(sql<boolean>`${aliveCondition(sql.ref("replicas.id"))}`)
      .executeTakeFirst();
    return typeof row?.url === "string" ? { replicaId, url: row.url } : undefined;
  }

  async #send(home: Peer, request: Request, caller: CallCaller, endpoint: EndpointName): Promise<Response> {
    const { maxBodyBytes, bodies, peers, now, onError } = this.#dependencies;
    using kept = bodies.keep(caller.tenant.id);
    const texts = request.method === "POST" ? [await (await readBody(request, maxBodyBytes, kept)).text()] : [];
    const signal = AbortSignal.any([request.signal, this.#stop.signal]);
    try {
      const exchange = await peers.open(home, signal, "request");
      if (exchange instanceof PeerExchange) {
        const message = toMessage(request, caller, { endpoint, at: now() });
        return await toResponse(exchange, message, texts, signal);
      }
      if (exchange === "busy" || exchange === "expired")
        return rejectUnavailable("The replica that has the session is busy");
      return reject(404, "Session not found: initialize a new one", SESSION_NOT_FOUND);
    } catch (thrown) {
      if (thrown instanceof PeerUnreachable && !signal.aborted) onError(thrown);
      return rejectUnavailable("The replica that has the session cannot be reached, or was lost");
    }
  }

  /** Ends all requests that are passed on. */
  [Symbol.dispose](): void {
    this.#stop.abort();
  }
}

function toMessage(
  { method, headers }: Request,
  { tenant, keyId }: CallCaller,
  { endpoint, at }: Pick<PeerRequestMessage, "endpoint" | "at">,
): PeerRequestMessage {
  const sent = REQUEST_HEADERS.flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  return {
    type: "request",
    at,
    tenantId: tenant.id,
    keyId,
    endpoint,
    method: method as PeerRequestMessage["method"],
    headers: Object.fromEntries(sent),
  };
}

/**
 * Sends the request, and returns the response when its status is known.
 * @throws if the replica is gone before that
 */
async function toResponse(
  exchange: PeerExchange,
  message: PeerRequestMessage,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<Response> {
  const close = (): void => exchange[Symbol.dispose]();
  signal.addEventListener("abort", close, { once: true });
  const parts = exchange.request(message, texts);
  const end = (): void => {
    signal.removeEventListener("abort", close);
    close();
    // Ends the watch for a silent replica, as soon as nothing is being read.
    parts.return().catch(() => {});
  };
  const next = async (): Promise<ResponseMessage & { readonly text: string }> => {
    const { value } = await parts.next();
    if (value === undefined) throw new Error("The exchange has ended");
    return { ...value.message, text: value.texts[0] ?? "" };
  };
  try {
    const head = await next();
    if (head.type !== "head") throw new Error(`Expected the head of a response, got ${head.type}`);
    const { status, headers } = head;
    if (!WITHOUT_BODY.has(status)) return new Response(toBody(next, exchange, end), { status, headers });
    end();
    return new Response(null, { status, headers });
  } catch (thrown) {
    end();
    throw thrown;
  }
}

/** Returns the body of a response, which is read only as fast as the client reads it. */
function toBody(
  next: () => Promise<ResponseMessage & { readonly text: string }>,
  exchange: PeerExchange,
  end: () => void,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { type, text } = await next();
          if (type === "body") return controller.enqueue(encoder.encode(text));
          if (type !== "end") throw new Error(`Expected a part of a body, got ${type}`);
          exchange.finish();
          end();
          controller.close();
        } catch (thrown) {
          end();
          controller.error(thrown);
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
