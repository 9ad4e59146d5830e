// Manages the HTTP sessions of clients that use a protocol revision of 2025. A session starts with `initialize`, is identified by
// `Mcp-Session-Id`, belongs to one caller, and ends when it is idle for too long or evicted for a new one.
import { randomUUID } from "node:crypto";
import {
  isInitializeRequest,
  type McpServer,
  SUPPORTED_PROTOCOL_VERSIONS,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import * as z from "zod";
import { strictObject } from "../../../../sandbox/contract/plain-object.ts";
import { ignoreOutcome } from "../../../util/host-callback.ts";
import { type McpCaller, ownerOf } from "../authorization/caller.ts";
import { notifyPromptsChanged, notifyToolsChanged } from "../tools/tool-changes.ts";
import { largestOwnerItems } from "./largest-owner-items.ts";
import { INVALID_REQUEST, reject, rejectUnavailable } from "./rejection.ts";

/** Bounds of the sessions of a `McpHandler`. */
export interface HttpSessionOptions {
  /**
   * Largest number of open sessions, 1 to 100,000. When it is reached, a new session evicts one of the tenant with the
   * most sessions, of its caller with the most, and preferably one without running calls. If that would end running
   * calls of the same caller, the request is answered with 503.
   * @default 1_000
   */
  readonly max?: number | undefined;
  /**
   * Time in ms after which an idle session ends, 1,000 to 86,400,000. Its client then starts a new one. A session is not idle while one of
   * its calls runs or its client has a notification stream open.
   * @default 1_800_000 (30 minutes)
   */
  readonly idleMs?: number | undefined;
  /**
   * Beginning of the ids of sessions, before a dot: 1 to 64 letters, digits, hyphens and underscores. With the name of the process, whatever
   * distributes the requests finds the process that has a session. Default: none
   */
  readonly idPrefix?: string | undefined;
}

export const SessionOptionsSchema = strictObject({
  max: z.int().min(1).max(100_000).default(1_000),
  idleMs: z.int().min(1_000).max(86_400_000).default(1_800_000),
  idPrefix: z
    .string()
    .regex(/^[\w-]{1,64}$/, "Expected 1 to 64 letters, digits, hyphens and underscores")
    .optional(),
});

const CancelledSchema = z.object({
  method: z.literal("notifications/cancelled"),
  params: z.object({ requestId: z.union([z.string(), z.number()]) }),
});

const RequestSchema = z.object({ method: z.string(), id: z.union([z.string(), z.number()]) });
const REQUEST_CANCELLED = -32_800;

type CreateServer = (caller: McpCaller) => Promise<McpServer>;

interface HttpSessionsDependencies extends z.infer<typeof SessionOptionsSchema> {
  /** Receives errors that occur while a session ends. */
  readonly onError: (error: unknown) => void;
}

interface HttpSession {
  readonly tenantId: string;
  readonly owner: string;
  readonly server: McpServer;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  /** Idle timeout; undefined while the session is in use. */
  timer: NodeJS.Timeout | undefined;
  /** Number of open responses: notification streams, and responses to POST requests. */
  open: number;
  /** Number of open responses to POST requests. */
  running: number;
  /** Ids of the JSON-RPC requests that are being answered. */
  readonly requestIds: Set<string | number>;
}

/** Returns the response with a body that calls `onEnd` once, when it has ended or was cancelled. */
function withEndCallback(response: Response, onEnd: () => void): Response {
  const { body, status, statusText, headers } = response;
  if (body === null) {
    onEnd();
    return response;
  }
  const observed = body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({ flush: onEnd, cancel: onEnd }));
  return new Response(observed, { status, statusText, headers });
}

/** Returns the id of the request that a message cancels. */
function cancelledRequest(body: unknown): string | number | undefined {
  const parsed = CancelledSchema.safeParse(body);
  return parsed.success ? parsed.data.params.requestId : undefined;
}

/**
 * Ends the stream of a cancelled request, on which the SDK sends nothing more: the open stream would keep its quota. The SDK also keeps the id
 * of each request until it has a response, so it gets one, which has no stream left and is dropped.
 */
function dropCancelled(transport: WebStandardStreamableHTTPServerTransport, id: string | number): void {
  transport.closeSSEStream(id);
  const error = { code: REQUEST_CANCELLED, message: "The request was cancelled" };
  // Rejects if the request had a response before.
  transport.send({ jsonrpc: "2.0", id, error }).catch(() => {});
}

/** Returns the id of a request; undefined for every other message. */
function requestIdOf(body: unknown): string | number | undefined {
  const parsed = RequestSchema.safeParse(body);
  return parsed.success ? parsed.data.id : undefined;
}

/** Returns whether a request has a method of session clients. GET and DELETE act on a session; revision 2026-07-28 uses POST only. */
function isSessionMethod({ method, headers }: Request): boolean {
  const version = headers.get("mcp-protocol-version");
  const isModern = version !== null && !SUPPORTED_PROTOCOL_VERSIONS.includes(version);
  return method === "POST" || (!isModern && (method === "GET" || method === "DELETE"));
}

export class HttpSessions implements AsyncDisposable {
  /** Sorted by last use, the least recently used first. */
  readonly #sessions = new Map<string, HttpSession>();
  readonly #options: HttpSessionsDependencies;
  readonly #create: CreateServer;
  #isClosed = false;

  constructor(create: CreateServer, options: HttpSessionsDependencies) {
    this.#options = options;
    this.#create = create;
  }

  /** Answers a request. @param body the parsed JSON; undefined for a request without a body */
  async handle(request: Request, caller: McpCaller, body: unknown): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null) return await this.#startSession(request, caller, body);
    const session = this.#sessions.get(id);
    // The session of another caller is answered as one that does not exist.
    if (session === undefined || session.owner !== ownerOf(caller)) {
      return reject(404, "Session not found: initialize a new one", -32_001);
    }
    return await this.#serve(session, id, request, body);
  }

  async #startSession(request: Request, caller: McpCaller, body: unknown): Promise<Response> {
    if (!isSessionMethod(request)) return reject(405, "Expected a POST", -32_000, { Allow: "POST" });
    if (request.method !== "POST" || !isInitializeRequest(body)) {
      return reject(400, "Expected an initialize request, or the Mcp-Session-Id of an open session");
    }
    if (requestIdOf(body) === undefined)
      return reject(400, "Expected an initialize request with an id", INVALID_REQUEST);
    const owner = ownerOf(caller);
    const server = await this.#create(caller);
    // Checked after the server was created, which may take a while. From here to `set` nothing is awaited.
    if (this.#isClosed) return rejectUnavailable("This server is closed");
    if (this.#sessions.size >= this.#options.max && !this.#evict(owner)) {
      return rejectUnavailable("Too many sessions are open; try again later");
    }
    const { idPrefix } = this.#options;
    const id = idPrefix === undefined ? randomUUID() : `${idPrefix}.${randomUUID()}`;
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessionclosed: () => this.#end(id),
    });
    const { tenantId } = caller;
    const session = {
      tenantId,
      owner,
      server,
      transport,
      timer: undefined,
      open: 0,
      running: 0,
      requestIds: new Set<string | number>(),
    };
    this.#sessions.set(id, session);
    try {
      await server.connect(transport);
      const response = await this.#serve(session, id, request, body);
      // A rejected initialize request does not start a session.
      if (!response.ok) await this.#end(id);
      return response;
    } catch (thrown) {
      await this.#end(id);
      throw thrown;
    }
  }

  async #serve(session: HttpSession, id: string, request: Request, body: unknown): Promise<Response> {
    const requestId = requestIdOf(body);
    if (requestId !== undefined) {
      // The SDK would send the response to one request on the stream of the other, and the first stream would never end.
      if (session.requestIds.has(requestId)) {
        return reject(400, "A request with this id is running in this session: send another id", INVALID_REQUEST);
      }
      session.requestIds.add(requestId);
    }
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    const running = request.method === "POST" ? 1 : 0;
    clearTimeout(session.timer);
    session.timer = undefined;
    session.open += 1;
    session.running += running;
    const release = (): void => {
      session.open -= 1;
      session.running -= running;
      if (requestId !== undefined) session.requestIds.delete(requestId);
      if (session.open > 0 || this.#sessions.get(id) !== session) return;
      session.timer = setTimeout(() => this.#endSafely(id), this.#options.idleMs).unref();
    };
    try {
      const parsed = body === undefined ? {} : { parsedBody: body };
      const response = await session.transport.handleRequest(request, parsed);
      const cancelled = cancelledRequest(body);
      if (cancelled !== undefined && response.ok) dropCancelled(session.transport, cancelled);
      return withEndCallback(response, release);
    } catch (thrown) {
      release();
      throw thrown;
    }
  }

  /**
   * Ends the least recently used session of the caller with the most sessions, of the tenant with the most, so that neither a caller with many
   * sessions nor a tenant with many callers can displace those of others. Returns false if it would end running calls of the newcomer itself.
   */
  #evict(newcomer: string): boolean {
    const most = largestOwnerItems(this.#sessions, newcomer);
    const [id, session] = most.find(([, { running }]) => running === 0) ?? most[0] ?? [];
    if (id === undefined || session === undefined) return false;
    if (session.running > 0 && session.owner === newcomer) return false;
    this.#endSafely(id);
    return true;
  }

  #endSafely(id: string): void {
    ignoreOutcome(() => this.#end(id), this.#options.onError);
  }

  async #end(id: string): Promise<void> {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    this.#sessions.delete(id);
    clearTimeout(session.timer);
    await session.server.close();
  }

  /** Notifies the clients of a tenant that its tools have changed. @param tenantId undefined for all tenants */
  toolsChanged(tenantId?: string): void {
    for (const session of this.#sessions.values()) {
      if (tenantId === undefined || session.tenantId === tenantId) notifyToolsChanged(session.server);
    }
  }

  promptsChanged(): void {
    for (const { server } of this.#sessions.values()) notifyPromptsChanged(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled([...this.#sessions.keys()].map((id) => this.#end(id)));
  }
}
