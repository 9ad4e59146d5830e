// The MCP server over HTTP, fetch-shaped: a request in, a response out, for clients of 2026-07-28 (each request by itself) and of 2025
// (sessions), at one URL.
import { createMcpHandler as createSdkHandler, isLegacyRequest } from "@modelcontextprotocol/server";
import { DEFAULT_TENANT } from "../../pipeline/validate.ts";
import type { McpHost } from "./call-tool.ts";
import { type McpCaller, type McpRequest, ownerOf, principalOf, type ResourceServer } from "./caller.ts";
import { createGuards, type GuardOptions } from "./guards.ts";
import { HttpSessions, type SessionOptions } from "./http-sessions.ts";
import { createServer, type McpServerOptions } from "./mcp-server.ts";
import { refuse } from "./refusal.ts";
import { TenantEvents, watchTools } from "./tool-changes.ts";
import { WaitingCalls } from "./waiting-calls.ts";

export interface McpHandlerOptions extends McpServerOptions, GuardOptions {
  /** Who may call; everybody who reaches the server unless stated. `createResourceServer` makes one. */
  readonly auth?: ResourceServer | undefined;
  /**
   * Whose tools a caller sees and calls: 1 to 1,024 characters. Whoever it gives no such text for, or throws for, is answered with 403.
   * Without it everybody is the tenant `default`.
   */
  readonly tenantOf?: ((request: McpRequest) => string | undefined | Promise<string | undefined>) | undefined;
  /** Of clients of 2025: those of 2026 have none. */
  readonly sessions?: SessionOptions | undefined;
  /** Told of what went wrong beside a response. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface McpHandler extends AsyncDisposable {
  /** Answers one request; never rejects. Bound: it can be passed on by itself. */
  readonly fetch: (request: Request) => Promise<Response>;
  /**
   * Tells clients that listen that there are other tools now, those of one tenant or all. Done by itself when a tool is added to the box
   * or removed; for what a flag turns on or off.
   */
  toolsChanged(tenantId?: string): void;
  /** The same of prompts that `register` serves. */
  promptsChanged(): void;
  /** Ends all sessions, and what runs or waits: who asks later is answered with 503. The box stays as it is. */
  close(): Promise<void>;
}

const LISTEN = "subscriptions/listen";

/** As a call's context has it. */
const MAX_TENANT_UNITS = 1_024;
const isTenant = (tenantId: unknown): tenantId is string =>
  typeof tenantId === "string" && tenantId.length > 0 && tenantId.length <= MAX_TENANT_UNITS;

/**
 * Serves the tools of a Glovebox over MCP's Streamable HTTP. Mount `fetch` on any path, or behind `@hono/node-server`, Bun or Deno; with
 * `auth`, on the path of its `metadataUrl` too. Dispose it before the box.
 */
export function createMcpHandler(host: McpHost, options: McpHandlerOptions = {}): McpHandler {
  const { auth, tenantOf } = options;
  const onError = (error: unknown): void => {
    try {
      options.onError?.(error);
    } catch {
      // It is no caller's business what the host's listener does.
    }
  };
  const guards = createGuards(options);
  const callers = new WeakMap<Request, McpCaller>();
  const callerOf = (request: Request | undefined): McpCaller => {
    const caller = request && callers.get(request);
    if (caller === undefined) throw new Error("A request without a caller");
    return caller;
  };
  const waiting = new WaitingCalls(({ mcpReq, http }) => `${mcpReq.method}\0${ownerOf(callerOf(http?.req))}`);
  const create = (caller: McpCaller) => createServer(host, caller, waiting, options);
  const sessions = new HttpSessions(create, options.sessions ?? {});
  const events = new TenantEvents();
  const modern = createSdkHandler(({ requestInfo }) => create(callerOf(requestInfo)), {
    legacy: "reject",
    bus: events.bus,
    onerror: onError,
  });

  let isClosed = false;
  const toTenant = async (request: McpRequest): Promise<string | undefined> => {
    if (tenantOf === undefined) return DEFAULT_TENANT;
    try {
      return await tenantOf(request);
    } catch (thrown) {
      onError(thrown);
      return undefined;
    }
  };

  const serve = async (request: Request): Promise<Response> => {
    const refusal = auth?.serveMetadata(request);
    if (refusal !== undefined) return refusal;
    const authenticated = await auth?.authenticate(request);
    if (authenticated instanceof Response) return authenticated;
    const tenantId = await toTenant({ caller: authenticated, request });
    if (!isTenant(tenantId)) return refuse(403, "This caller has no tools here");
    const body = await guards.readBody(request);
    if (body instanceof Response) return body;
    if (isClosed) return refuse(503, "This server is closed");
    const caller = { tenantId, principal: principalOf(authenticated) };
    callers.set(request, caller);
    const parsedBody = body.value;
    if (await isLegacyRequest(request, parsedBody)) return await sessions.handle(request, caller, parsedBody);
    const isListening = (parsedBody as { readonly method?: unknown } | null | undefined)?.method === LISTEN;
    if (!isListening) return await modern.fetch(request, { parsedBody });
    return await events.serve(tenantId, () => modern.fetch(request, { parsedBody }));
  };
  const toolsChanged = (tenantId?: string): void => {
    events.toolsChanged(tenantId);
    sessions.toolsChanged(tenantId);
  };
  const watch = watchTools(host.router.registry, toolsChanged);
  const close = async (): Promise<void> => {
    isClosed = true;
    watch[Symbol.dispose]();
    waiting[Symbol.dispose]();
    await Promise.all([modern.close(), sessions[Symbol.asyncDispose]()]);
  };
  return {
    fetch: async (request) => {
      try {
        return guards.check(request) ?? guards.finish(request, await serve(request));
      } catch (thrown) {
        onError(thrown);
        return refuse(500, "Internal error", -32_603);
      }
    },
    toolsChanged,
    promptsChanged: () => {
      events.bus.publish({ kind: "prompts_list_changed" });
      sessions.promptsChanged();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
