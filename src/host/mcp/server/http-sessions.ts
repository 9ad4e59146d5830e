// Connections of 2025-era clients over HTTP: made by `initialize`, named by Mcp-Session-Id, each its caller's own, bounded, and ended
// when nobody uses them.
import { randomUUID } from "node:crypto";
import {
  isInitializeRequest,
  type McpServer,
  SUPPORTED_PROTOCOL_VERSIONS,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../option-problems.ts";
import { type McpCaller, ownerOf } from "./caller.ts";
import { ofGreediest } from "./greediest.ts";
import { refuse } from "./refusal.ts";
import { tellToolsChanged } from "./tool-changes.ts";

export interface SessionOptions {
  /**
   * How many may be open, 1 to 100,000; 1,000 unless stated. Past it, one of whoever has most of them ends for a new one, if it can be one
   * in which nothing runs; who would have to end its own running calls is answered with 503.
   */
  readonly max?: number | undefined;
  /**
   * One that nobody has used for so long is over, 1 s to a day; half an hour unless stated. Its client begins another one. It is used while
   * a call of it runs, and while its client listens.
   */
  readonly idleMs?: number | undefined;
}

const SessionOptionsSchema = strictObject({
  max: z.int().min(1).max(100_000).default(1_000),
  idleMs: z.int().min(1_000).max(86_400_000).default(1_800_000),
});

interface HttpSession {
  readonly tenantId: string;
  readonly owner: string;
  readonly server: McpServer;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  /** Undefined while it is used. */
  timer: NodeJS.Timeout | undefined;
  /** Responses under way, and those of them that are to requests: the rest listens. */
  open: number;
  running: number;
}

/** Tells once when nothing more of a response will be read: it has ended, broken off, or nobody is there. */
function whenOver(response: Response, tell: () => void): Response {
  const { body, status, statusText, headers } = response;
  if (body === null) {
    tell();
    return response;
  }
  const watched = body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({ flush: tell, cancel: tell }));
  return new Response(watched, { status, statusText, headers });
}

/** GET and DELETE are about sessions: clients of 2026, which have none, POST all that they ask. */
function isSessionMethod({ method, headers }: Request): boolean {
  const version = headers.get("mcp-protocol-version");
  const isModern = version !== null && !SUPPORTED_PROTOCOL_VERSIONS.includes(version);
  return method === "POST" || (!isModern && (method === "GET" || method === "DELETE"));
}

export class HttpSessions implements AsyncDisposable {
  /** In order of their last use, the longest unused first. */
  readonly #sessions = new Map<string, HttpSession>();
  readonly #options: z.infer<typeof SessionOptionsSchema>;
  readonly #create: (caller: McpCaller) => McpServer;

  /** @throws {ToolError} PARAM_INVALID */
  constructor(create: (caller: McpCaller) => McpServer, options: SessionOptions) {
    this.#options = parseOptions(SessionOptionsSchema, options, "options.sessions");
    this.#create = create;
  }

  /** @param body parsed, where there is one */
  async handle(request: Request, caller: McpCaller, body: unknown): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null) return await this.#begin(request, caller, body);
    const session = this.#sessions.get(id);
    // Somebody else's looks as one that there is not.
    if (session === undefined || session.owner !== ownerOf(caller)) {
      return refuse(404, "Session not found: initialize a new one", -32_001);
    }
    return await this.#serve(session, id, request, body);
  }

  async #begin(request: Request, caller: McpCaller, body: unknown): Promise<Response> {
    if (!isSessionMethod(request)) return refuse(405, "Expected a POST", -32_000, { Allow: "POST" });
    if (request.method !== "POST" || !isInitializeRequest(body)) {
      return refuse(400, "Expected an initialize request, or the Mcp-Session-Id that one was answered with");
    }
    const owner = ownerOf(caller);
    if (this.#sessions.size >= this.#options.max && !this.#evict(owner)) {
      return refuse(503, "Too many sessions are open; try again later");
    }
    const server = this.#create(caller);
    const id = randomUUID();
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessionclosed: () => this.#end(id),
    });
    await server.connect(transport);
    const { tenantId } = caller;
    const session = { tenantId, owner, server, transport, timer: undefined, open: 0, running: 0 };
    this.#sessions.set(id, session);
    const response = await this.#serve(session, id, request, body);
    // One that was refused is none.
    if (!response.ok) await this.#end(id);
    return response;
  }

  async #serve(session: HttpSession, id: string, request: Request, body: unknown): Promise<Response> {
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
      if (session.open > 0 || this.#sessions.get(id) !== session) return;
      session.timer = setTimeout(() => void this.#end(id), this.#options.idleMs).unref();
    };
    try {
      const parsed = body === undefined ? {} : { parsedBody: body };
      return whenOver(await session.transport.handleRequest(request, parsed), release);
    } catch (thrown) {
      release();
      throw thrown;
    }
  }

  /** Of whoever has the most of them the longest unused makes room: nobody pushes out those who have few. */
  #evict(newcomer: string): boolean {
    const most = ofGreediest(this.#sessions);
    const [id, session] = most.find(([, { running }]) => running === 0) ?? most[0] ?? [];
    if (id === undefined || session === undefined) return false;
    if (session.running > 0 && session.owner === newcomer) return false;
    void this.#end(id);
    return true;
  }

  async #end(id: string): Promise<void> {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    this.#sessions.delete(id);
    clearTimeout(session.timer);
    await session.server.close();
  }

  /** Tells a tenant's, or all of them, that there are other tools now. */
  toolsChanged(tenantId?: string): void {
    for (const session of this.#sessions.values()) {
      if (tenantId === undefined || session.tenantId === tenantId) tellToolsChanged(session.server);
    }
  }

  promptsChanged(): void {
    for (const { server } of this.#sessions.values()) server.sendPromptListChanged();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#sessions.keys()].map((id) => this.#end(id)));
  }
}
