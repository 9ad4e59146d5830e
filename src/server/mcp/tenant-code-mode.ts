// Serves the code mode of each tenant over MCP: two tools that call the tenant's tools from code. Runs are recorded like all calls, with the
// calls that the code made; those need the approvals that the tenant's policy demands.
import { AsyncLocalStorage } from "node:async_hooks";
import { type CodeMode, createCodeMode, TypeChecker } from "../../host/code-mode/index.ts";
import { ToolError } from "../../host/index.ts";
import { createMcpHandler, type McpHandler, type McpHost } from "../../host/mcp/server/index.ts";
import type { CallCaller } from "../calls/call-request.ts";
import { type TenantMcpParts, toRequestLimits, toResourceServer } from "./tenant-mcp.ts";

/** Tenants whose code mode is open. The one that was used longest ago is closed, with its MCP sessions. */
const MAX_OPEN = 64;

interface OpenCodeMode {
  readonly codeMode: CodeMode;
  readonly handler: McpHandler;
}

export class TenantCodeMode implements AsyncDisposable {
  readonly #parts: TenantMcpParts;
  readonly #checker = new TypeChecker();
  /** By tenant, the one that was used last at the end. */
  readonly #open = new Map<string, OpenCodeMode>();
  /** The caller of the request that a call belongs to. */
  readonly #callers = new AsyncLocalStorage<CallCaller>();

  constructor(parts: TenantMcpParts) {
    this.#parts = parts;
  }

  /** Answers a request whose key and tenant have been checked. */
  async fetch(request: Request, caller: CallCaller): Promise<Response> {
    const { id, revision } = caller.tenant;
    await this.#parts.tools.ensureAll(id, revision);
    const known = this.#open.get(id) ?? this.#create(id);
    this.#open.delete(id);
    this.#open.set(id, known);
    await this.#closeOldest();
    return await this.#callers.run(caller, () => known.handler.fetch(request));
  }

  #create(tenantId: string): OpenCodeMode {
    const { box, authenticator, calls, onError, allowedHosts, maxBodyBytes } = this.#parts;
    // Without TypeScript on this machine, code runs unchecked.
    const codeMode = createCodeMode(box, {
      ...{ tenantId, typeCheck: "auto", typeChecker: this.#checker },
      language: ["typescript", "javascript", "python"],
    });
    const host: McpHost = {
      router: codeMode.router,
      listTools: (scope) => codeMode.listTools(scope),
      execute: async (toolCall, context = {}) => {
        const caller = this.#callers.getStore();
        if (caller === undefined) throw new ToolError("INTERNAL", "A call over MCP has no caller");
        return await calls.runOn(codeMode, toolCall, context, caller);
      },
    };
    const handler = createMcpHandler(host, {
      allowedHosts: allowedHosts.filter((name) => name !== "::1"),
      auth: toResourceServer(authenticator),
      // The guard of the route has checked that the key may act for this tenant.
      tenantOf: () => tenantId,
      ...toRequestLimits(maxBodyBytes),
      onError,
    });
    return { codeMode, handler };
  }

  async #closeOldest(): Promise<void> {
    if (this.#open.size <= MAX_OPEN) return;
    const [oldest] = this.#open;
    if (oldest === undefined) return;
    this.#open.delete(oldest[0]);
    await closeOne(oldest[1]);
  }

  async close(): Promise<void> {
    const all = [...this.#open.values()];
    this.#open.clear();
    await Promise.all([...all.map(closeOne), this.#checker[Symbol.asyncDispose]()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function closeOne({ codeMode, handler }: OpenCodeMode): Promise<void> {
  await handler.close();
  await codeMode.close();
}
