// Serves the tools of each tenant over MCP, with the keys of the API. Calls over MCP are recorded like all others.
import { AsyncLocalStorage } from "node:async_hooks";
import { type Glovebox, ToolError } from "../../host/index.ts";
import {
  createMcpHandler,
  type McpHandler,
  type McpHandlerOptions,
  type McpHost,
} from "../../host/mcp/server/index.ts";
import type { RequestAuthenticator } from "../auth/authentication.ts";
import type { CallCaller } from "../calls/call-request.ts";
import type { CallService } from "../calls/call-service.ts";
import type { AllowedHosts } from "../config/server-options.ts";
import { isOutage } from "../database/database-errors.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import type { RunService } from "../runs/run-service.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";

import { createTaskRuns } from "./tenant-task-runs.ts";

const MAX_REVISIONS = 10_000;

export interface TenantMcpDependencies {
  readonly glovebox: Glovebox;
  readonly authenticator: RequestAuthenticator;
  readonly tools: TenantTools;
  readonly calls: CallService;
  readonly runs: RunService;
  readonly database: OpenDatabase;
  readonly allowedHosts: AllowedHosts;
  /** Largest body of a request in bytes. */
  readonly maxBodyBytes: number;
  /** Id of this replica, with which the ids of its sessions begin; undefined if it is the only one. */
  readonly sessionPrefix: string | undefined;
  readonly onError: (error: unknown) => void;
}

/** Returns the tenant that a path names: `/v1/tenants/{tenant}/mcp`. */
const tenantOfPath = (url: string): string | undefined =>
  /^\/v1\/tenants\/([^/]+)\/mcp$/.exec(new URL(url).pathname)?.[1];

/** Returns the response for a lost database: a client that got 401 would drop its token. */
const toLoss = (thrown: unknown): Response | undefined =>
  isOutage(thrown) ? new Response(null, { status: 503, headers: { "retry-after": "5" } }) : undefined;

/** Authenticates requests to MCP endpoints with the keys of the API. */
export const toResourceServer = (authenticator: RequestAuthenticator): NonNullable<McpHandlerOptions["auth"]> => ({
  serveMetadata: () => undefined,
  authenticate: async (request) => {
    // The guard of the route has checked the key or token just before.
    const header = request.headers.get("authorization") ?? undefined;
    const principal = await authenticator.authenticate(header).catch((thrown: unknown) => toLoss(thrown));
    if (principal instanceof Response) return principal;
    if (principal === undefined) return new Response(null, { status: 401 });
    const { keyId, tenantId, scopes } = principal;
    const expiresAt = principal.expiresAt === null ? Number.POSITIVE_INFINITY : principal.expiresAt / 1_000;
    return { subject: keyId, scopes: [...scopes], expiresAt, claims: { tenantId } };
  },
});

/** Bytes of the bodies of all requests of a caller, and of all callers, that are being received or answered. */
const REQUEST_BYTES = { perCaller: 32 * 1024 * 1024, total: 128 * 1024 * 1024 } as const;

/** Returns the limits of requests: the operator's limit of a body, and at least one such body for each caller. */
export const toRequestLimits = (maxBodyBytes: number): Pick<McpHandlerOptions, "limits" | "maxBodyBytes"> => ({
  maxBodyBytes,
  limits: {
    requestBytes: { ...REQUEST_BYTES, perCaller: Math.max(REQUEST_BYTES.perCaller, maxBodyBytes) },
  },
});

/** Returns the options of the MCP handler for the Host headers that the server accepts. */
export const toHostOptions = ({ names, addresses }: AllowedHosts) =>
  ({ allowedHosts: names.filter((name) => name !== "::1"), allowIpHosts: addresses }) as const;

export class TenantMcp implements AsyncDisposable {
  readonly #handler: McpHandler;
  /** The caller of the request that a call belongs to. */
  readonly #callers = new AsyncLocalStorage<CallCaller>();
  /** The latest revision of each tenant that a request has had. */
  readonly #revisions = new Map<string, number>();

  constructor(dependencies: TenantMcpDependencies) {
    const { glovebox, authenticator, onError } = dependencies;
    const host: McpHost = {
      router: glovebox.router,
      listTools: (scope) => glovebox.router.listTools(scope),
      listToolPage: async (page) => {
        const { definitions, next } = await dependencies.tools.listDefinitions(this.#caller().tenant.id, page);
        return { definitions, next };
      },
      prepareTool: async (toolName) => {
        const { id, revision } = this.#caller().tenant;
        await dependencies.tools.ensureTool(id, revision, toolName);
      },
      watchCaller: () => this.#caller().watch?.(),
      execute: async (toolCall, context = {}) => {
        return await dependencies.calls.runForeign(toolCall, context, this.#caller());
      },
    };
    this.#handler = createMcpHandler(host, {
      ...toHostOptions(dependencies.allowedHosts),
      auth: toResourceServer(authenticator),
      // The guard of the route has checked that the key may act for this tenant.
      tenantOf: ({ request }) => tenantOfPath(request.url),
      ...toRequestLimits(dependencies.maxBodyBytes),
      sessions: { idPrefix: dependencies.sessionPrefix },
      runs: createTaskRuns(dependencies.runs, dependencies.database.db, () => this.#caller()),
      onError,
    });
  }

  /** Answers a request whose key and tenant have been checked. */
  async fetch(request: Request, caller: CallCaller): Promise<Response> {
    this.#noteRevision(caller.tenant);
    return await this.#callers.run(caller, () => this.#handler.fetch(request));
  }

  /** @throws {ToolError} INTERNAL outside a request */
  #caller(): CallCaller {
    const caller = this.#callers.getStore();
    if (caller === undefined) throw new ToolError("INTERNAL", "A request over MCP has no caller");
    return caller;
  }

  /** Notifies a tenant's clients after a change of its tools, which this or another process has made. */
  #noteRevision({ id, revision }: TenantRecord): void {
    const known = this.#revisions.get(id);
    if (known === revision) return;
    if (this.#revisions.size >= MAX_REVISIONS) this.#revisions.clear();
    this.#revisions.set(id, revision);
    if (known !== undefined) this.#handler.toolsChanged(id);
  }

  async close(): Promise<void> {
    await this.#handler.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
