// Serves MCP over HTTP as a function from Request to Response. One URL serves clients of protocol revision 2026-07-28, whose requests are
// independent of each other, and clients of the revisions of 2025, which have sessions.

import { createMcpHandler as createSdkHandler, isLegacyRequest } from "@modelcontextprotocol/server";
import { TOOL_NAME_PATTERN } from "../../../../sandbox/contract/tool-name.ts";
import type { TenantFilter } from "../../../tenants/tenancy.ts";
import { notifySafely } from "../../../util/host-callback.ts";
import { createAuthenticator } from "../authorization/authentication.ts";
import { type McpCaller, ownerOf } from "../authorization/caller.ts";
import type { IdentifiedCaller } from "../authorization/identify-caller.ts";
import { createServer } from "../mcp-server.ts";
import {
  checkHost,
  checkTenantOf,
  type McpHandlerOptions,
  type ParsedHandlerOptions,
  parseChanged,
  parseHandlerOptions,
} from "../options.ts";
import { rejectTaskSubscription } from "../tasks/task-subscriptions.ts";
import type { McpHost } from "../tools/call-tool.ts";
import { type CallerValidity, CallsAwaitingInput } from "../tools/calls-awaiting-input.ts";
import { TenantEvents, watchTools } from "../tools/tool-changes.ts";
import { createAdmission } from "./admission.ts";
import { createGuards, type Guards } from "./guards.ts";
import { createQuotas, type HttpQuotas } from "./http-limits.ts";
import { HttpSessions } from "./http-sessions.ts";
import { answerWithinLimits, type RequestKind } from "./open-request.ts";
import { reject, rejectUnavailable } from "./rejection.ts";

/** Result of {@link createMcpHandler}. Disposing it has the effect of `close()`. */
export interface McpHandler extends AsyncDisposable {
  /** Answers one request. Never rejects. It does not use `this`, so it can be passed without the handler. */
  readonly fetch: (request: Request) => Promise<Response>;
  /**
   * Notifies listening clients that the list of tools has changed. The handler does so itself when a tool is added to the Glovebox or
   * removed. Call it when the list changes for another reason, such as a feature flag.
   * @param tenant with `tenancy: "multi"`: the tenant's id, 1 to 1,024 characters, or `{ scope: "all" }` for all tenants
   * @throws {ToolError} PARAM_INVALID for anything else
   */
  toolsChanged(tenant?: string | TenantFilter): void;
  /** Notifies listening clients that the prompts added by `register` have changed. */
  promptsChanged(): void;
  /** Ends all sessions, running calls and waiting calls. Later requests are answered with 503. The Glovebox stays open. */
  close(): Promise<void>;
}

const LISTEN = "subscriptions/listen";
/** How the SDK's reports of messages begin that it has rejected because of their client. */
const REJECTION = /^(?:Rejected (?:inbound|2025-era) request|Unsupported Media Type)/;

function kindOf({ method }: Request, body: unknown): RequestKind {
  if (method === "GET") return "listen";
  const message = (body ?? {}) as { readonly id?: unknown; readonly method?: unknown };
  if (message.method === LISTEN) return "listen";
  return method === "POST" && (message.method === undefined || message.id === undefined) ? "message" : "call";
}

/** Returns the name of the tool that a message calls; undefined for any other message. */
function calledTool(body: unknown): string | undefined {
  const { method, params } = (body ?? {}) as { readonly method?: unknown; readonly params?: unknown };
  if (method !== "tools/call") return undefined;
  const { name } = (params ?? {}) as { readonly name?: unknown };
  return typeof name === "string" && TOOL_NAME_PATTERN.test(name) ? name : undefined;
}

/**
 * Serves the tools of a Glovebox over MCP's Streamable HTTP. Mount `fetch` on any path, or behind `@hono/node-server`, Bun or Deno; with
 * `auth`, also on the path of its `metadataUrl`. A batch of JSON-RPC messages is rejected with 400 in every protocol revision. The caller
 * disposes the handler, before the Glovebox.
 *
 * `limits` bounds requests and responses. The HTTP server must limit connections: with `node:http`, set `headersTimeout`, `requestTimeout`
 * and `maxConnections`, as `glovebox mcp --http` does (10 s, 60 s and 2,048).
 *
 * When a caller's token expires, its notification streams end. Its running calls are cancelled `limits.expiredCallMs` later.
 * @throws {ToolError} PARAM_INVALID for a `host` that is not a Glovebox, for an unknown or invalid option, and for a missing or unexpected
 *   `tenantOf`
 * @example
 * ```typescript
 * import { serve } from "@hono/node-server";
 * import { createGlovebox } from "glovebox";
 * import { createMcpHandler } from "glovebox/mcp";
 *
 * const glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/add.ts" });
 * const { fetch } = createMcpHandler(glovebox);
 * serve({ fetch, hostname: "127.0.0.1", port: 8_080 });
 * ```
 */
export function createMcpHandler(host: McpHost, options: McpHandlerOptions = {}): McpHandler {
  checkHost(host);
  const parsed = parseHandlerOptions(options);
  checkTenantOf(parsed.tenantOf, host.router.tenancy);
  const onError = (error: unknown): void => notifySafely(parsed.onError, error);
  return new HttpMcpHandler(host, { ...parsed, onError });
}

type HandlerConfig = Omit<ParsedHandlerOptions, "onError"> & { readonly onError: (error: unknown) => void };

class HttpMcpHandler implements McpHandler {
  readonly #host: McpHost;
  readonly #config: HandlerConfig;
  readonly #guards: Guards;
  readonly #quotas: HttpQuotas;
  readonly #admit: ReturnType<typeof createAdmission>;
  readonly #callers = new WeakMap<Request, IdentifiedCaller>();
  readonly #waiting = new CallsAwaitingInput(
    ({ mcpReq, http }) => `${mcpReq.method}\0${ownerOf(this.#callerOf(http?.req))}`,
    ({ http }) => this.#validityOf(this.#callerOf(http?.req)),
  );
  readonly #sessions: HttpSessions;
  readonly #events = new TenantEvents();
  /** Serves the requests of revision 2026-07-28. */
  readonly #modern: ReturnType<typeof createSdkHandler>;
  readonly #subscription: Disposable;
  #isClosed = false;

  constructor(host: McpHost, config: HandlerConfig) {
    const { auth, tenantOf, limits, allowedHosts, allowIpHosts, allowedOrigins, onError } = config;
    const { tenancy, registry } = host.router;
    this.#host = host;
    this.#config = config;
    this.#guards = createGuards({ allowedHosts, allowIpHosts, allowedOrigins });
    const authenticator = createAuthenticator(auth, { timeoutMs: limits.identifyMs, onError });
    this.#quotas = createQuotas(limits, tenancy.mode === "multi");
    this.#admit = createAdmission({ ...config, tenantOf, authenticator, tenancy, quotas: this.#quotas });
    const create = (caller: McpCaller) => createServer(host, caller, this.#waiting, config);
    this.#sessions = new HttpSessions(create, { ...config.sessions, onError });
    this.#modern = createSdkHandler(({ requestInfo }) => create(this.#callerOf(requestInfo)), {
      legacy: "reject",
      bus: this.#events.bus,
      maxSubscriptions: limits.listenStreams.total,
      // Its client reads what is wrong with a message in the response. Errors are for the operator, whom a client could flood with them.
      onerror: (error) => {
        if (!REJECTION.test(error.message)) onError(error);
      },
    });
    this.#subscription = watchTools(registry, (tenantId) => this.#notifyTools(tenantId));
  }

  // The public functions are properties, so that they work without the handler.
  readonly fetch = async (request: Request): Promise<Response> => {
    try {
      return this.#guards.check(request) ?? this.#guards.finish(request, await this.#serve(request));
    } catch (thrown) {
      this.#config.onError(thrown);
      return reject(500, "Internal error", -32_603);
    }
  };

  async #serve(client: Request): Promise<Response> {
    const admitted = await this.#admit(client);
    if (!("caller" in admitted)) return admitted;
    const { caller, body, release } = admitted;
    if (this.#isClosed) {
      release();
      return rejectUnavailable("This server is closed");
    }
    const requestOptions = {
      kind: kindOf(client, body),
      owner: ownerOf(caller),
      limits: this.#config.limits,
      quotas: this.#quotas,
      expiresAtMs: caller.expiresAtMs,
      onEnd: release,
    };
    return await answerWithinLimits(client, requestOptions, (request) => this.#answer(request, caller, body));
  }

  async #answer(request: Request, caller: IdentifiedCaller, body: unknown): Promise<Response> {
    this.#callers.set(request, caller);
    const toolName = calledTool(body);
    if (toolName !== undefined) {
      await this.#host.prepareTool?.(toolName, this.#host.router.tenancy.optionOf(caller.tenantId));
    }
    if (await isLegacyRequest(request, body)) return await this.#sessions.handle(request, caller, body);
    const rejected = this.#config.runs === undefined ? undefined : rejectTaskSubscription(body);
    if (rejected !== undefined) return Response.json(rejected, { status: 400 });
    const run = (): Promise<Response> => this.#modern.fetch(request, { parsedBody: body });
    return await (kindOf(request, body) === "listen" ? this.#events.serve(caller.tenantId, run) : run());
  }

  #callerOf(request: Request | undefined): IdentifiedCaller {
    const caller = request && this.#callers.get(request);
    if (caller === undefined) throw new Error("The request has no caller");
    return caller;
  }

  #validityOf({ expiresAtMs = Number.POSITIVE_INFINITY }: IdentifiedCaller): CallerValidity {
    return { endsAtMs: expiresAtMs + this.#config.limits.expiredCallMs, watch: this.#host.watchCaller?.() };
  }

  #notifyTools(tenantId: string | undefined): void {
    this.#events.toolsChanged(tenantId);
    this.#sessions.toolsChanged(tenantId);
  }

  readonly toolsChanged = (tenant?: string | TenantFilter): void => {
    this.#notifyTools(parseChanged(tenant, this.#host.router.tenancy));
  };

  readonly promptsChanged = (): void => {
    this.#events.bus.publish({ kind: "prompts_list_changed" });
    this.#sessions.promptsChanged();
  };

  readonly close = async (): Promise<void> => {
    this.#isClosed = true;
    this.#subscription[Symbol.dispose]();
    this.#waiting[Symbol.dispose]();
    await Promise.all([this.#modern.close(), this.#sessions[Symbol.asyncDispose]()]);
  };

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
