// Serves the tools of each tenant over MCP, with the keys of the API. Calls over MCP are recorded like all others.
import { AsyncLocalStorage } from "node:async_hooks";
import { type Glovebox, ToolError } from "../../host/index.ts";
import { createMcpHandler, type McpHandler, type McpHost } from "../../host/mcp/server/index.ts";
import type { Authenticator } from "../auth/authentication.ts";
import type { CallCaller, CallService } from "../calls/call-service.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";

export interface TenantMcpParts {
  readonly box: Glovebox;
  readonly authenticator: Authenticator;
  readonly tools: TenantTools;
  readonly calls: CallService;
  readonly allowedHosts: readonly string[];
  readonly onError: (error: unknown) => void;
}

/** Returns the tenant that a path names: `/v1/tenants/{tenant}/mcp`. */
const tenantOfPath = (url: string): string | undefined =>
  /^\/v1\/tenants\/([^/]+)\/mcp$/.exec(new URL(url).pathname)?.[1];

export class TenantMcp implements AsyncDisposable {
  readonly #parts: TenantMcpParts;
  readonly #handler: McpHandler;
  /** The caller of the request that a call belongs to. */
  readonly #callers = new AsyncLocalStorage<CallCaller>();

  constructor(parts: TenantMcpParts) {
    this.#parts = parts;
    const { box, authenticator, onError } = parts;
    const host: McpHost = {
      router: box.router,
      listTools: (scope) => box.listTools(scope),
      execute: async (toolCall, context = {}) => {
        const caller = this.#callers.getStore();
        if (caller === undefined) throw new ToolError("INTERNAL", "A call over MCP has no caller");
        return await parts.calls.runForeign(toolCall, context, caller);
      },
    };
    this.#handler = createMcpHandler(host, {
      allowedHosts: parts.allowedHosts.filter((name) => name !== "::1"),
      auth: {
        serveMetadata: () => undefined,
        authenticate: async (request) => {
          const principal = await authenticator.authenticate(request.headers.get("authorization") ?? undefined);
          if (principal === undefined) return new Response(null, { status: 401 });
          const { keyId, tenantId, scopes } = principal;
          return { subject: keyId, scopes: [...scopes], expiresAt: Number.POSITIVE_INFINITY, claims: { tenantId } };
        },
      },
      // The guard of the route has checked that the key may act for this tenant.
      tenantOf: ({ request }) => tenantOfPath(request.url),
      onError,
    });
  }

  /** Answers a request whose key and tenant have been checked. */
  async fetch(request: Request, caller: CallCaller): Promise<Response> {
    await this.#parts.tools.ensureAll(caller.tenant.id, caller.tenant.revision);
    return await this.#callers.run(caller, () => this.#handler.fetch(request));
  }

  async close(): Promise<void> {
    await this.#handler.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
