// Serves the code mode of each tenant over MCP: tools that run code and look its durable runs up. The runs are those of the API: any server process
// continues them, and they become calls. The calls that the code makes are recorded below them, and need the approvals that the tenant's policy
// demands.
import { AsyncLocalStorage } from "node:async_hooks";
import { type CodeHost, createHostedCodeMode, RUN_CODE } from "../../host/code-mode/hosted-code.ts";
import { type CodeMode, TypeChecker } from "../../host/code-mode/index.ts";
import { type CallContext, type ToolCall, ToolError, type ToolResult, unavailable } from "../../host/index.ts";
import { createMcpHandler, type McpHandler, type McpHost } from "../../host/mcp/server/index.ts";
import type { CallCaller } from "../calls/call-request.ts";
import { tenantDeletedError } from "../calls/call-results.ts";
import { findTenant } from "../records/tenants/tenants.ts";
import { TenantCodeRuns } from "./tenant-code-runs.ts";
import { type TenantMcpDependencies, toHostOptions, toRequestLimits, toResourceServer } from "./tenant-mcp.ts";

/** Tenants whose code mode is open. The one that was used longest ago is closed, with its MCP sessions, unless it runs something. */
const MAX_OPEN = 64;

interface OpenCodeMode {
  readonly codeMode: CodeMode;
  readonly handler: McpHandler;
  /** Requests and attempts of runs that use it. */
  uses: number;
}

export class TenantCodeMode implements AsyncDisposable {
  readonly #dependencies: TenantMcpDependencies;
  readonly #runs: TenantCodeRuns;
  readonly #checker = new TypeChecker();
  /** By tenant, the one that was used last at the end. */
  readonly #open = new Map<string, OpenCodeMode>();
  /** The caller of the request that a call belongs to. */
  readonly #callers = new AsyncLocalStorage<CallCaller>();
  /** The callers of calls that run, by the ids of the calls: a call that has waited for its turn has no context of its request. */
  readonly #callersOf = new Map<string, CallCaller>();
  #isClosed = false;

  constructor(dependencies: TenantMcpDependencies) {
    this.#dependencies = dependencies;
    this.#runs = new TenantCodeRuns({ ...dependencies, db: dependencies.database.db });
  }

  /** Answers a request whose key and tenant have been checked. */
  async fetch(request: Request, caller: CallCaller): Promise<Response> {
    const { id, revision } = caller.tenant;
    await this.#dependencies.tools.ensureAll(id, revision);
    return await this.#use(id, ({ handler }) => this.#callers.run(caller, () => handler.fetch(request)));
  }

  /** Makes an attempt of a durable run of code. Its tenant's tools must be registered. */
  async execute(call: ToolCall, context: CallContext): Promise<ToolResult> {
    return await this.#use(context.tenantId ?? "", ({ codeMode }) => codeMode.execute(call, context));
  }

  async #use<Result>(tenantId: string, use: (open: OpenCodeMode) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) throw unavailable("shutting_down", "The server is shutting down");
    const open = this.#open.get(tenantId) ?? this.#create(tenantId);
    this.#open.delete(tenantId);
    this.#open.set(tenantId, open);
    open.uses += 1;
    try {
      await this.#closeOldest();
      return await use(open);
    } finally {
      open.uses -= 1;
    }
  }

  #create(tenantId: string): OpenCodeMode {
    const { glovebox, authenticator, calls, onError, allowedHosts, maxBodyBytes, sessionPrefix } = this.#dependencies;
    // Without TypeScript on this machine, code runs unchecked.
    const codeMode = createHostedCodeMode(
      glovebox,
      { tenantId, typeCheck: "auto", typeChecker: this.#checker, language: ["typescript", "javascript", "python"] },
      this.#toHosted(tenantId),
    );
    const recorded = { execute: (call: ToolCall, context?: CallContext) => this.#execute(codeMode, call, context) };
    const host: McpHost = {
      router: codeMode.router,
      listTools: (scope) => codeMode.listTools(scope),
      watchCaller: () => this.#caller().watch?.(),
      execute: async (toolCall, context = {}) => {
        const caller = this.#caller();
        if (toolCall.toolName === RUN_CODE) return await this.#runs.run(toolCall, context, caller);
        return await calls.runOn(recorded, toolCall, context, caller);
      },
    };
    const handler = createMcpHandler(host, {
      ...toHostOptions(allowedHosts),
      auth: toResourceServer(authenticator),
      // The guard of the route has checked that the key may act for this tenant.
      tenantOf: () => tenantId,
      ...toRequestLimits(maxBodyBytes),
      sessions: { idPrefix: sessionPrefix },
      onError,
    });
    return { codeMode, handler, uses: 0 };
  }

  /** Runs a tool that runs no code. */
  async #execute(codeMode: CodeMode, call: ToolCall, context?: CallContext): Promise<ToolResult> {
    this.#callersOf.set(call.id, this.#caller());
    try {
      return await codeMode.execute(call, context);
    } finally {
      this.#callersOf.delete(call.id);
    }
  }

  #toHosted(tenantId: string): CodeHost {
    const { database, tools, calls } = this.#dependencies;
    return {
      getRun: async (id, callId) => {
        const caller = this.#callersOf.get(callId);
        if (caller === undefined) throw new ToolError("INTERNAL", "A call over MCP has no caller");
        return await this.#runs.get(id, caller);
      },
      approvalOf: async (toolName) => {
        const tenant = await findTenant(database.db, tenantId);
        if (tenant === undefined) throw tenantDeletedError();
        await tools.ensureTool(tenant.id, tenant.revision, toolName);
        return calls.approvals.waitOf(tenant, toolName);
      },
    };
  }

  /** @throws {ToolError} INTERNAL outside a request */
  #caller(): CallCaller {
    const caller = this.#callers.getStore();
    if (caller === undefined) throw new ToolError("INTERNAL", "A call over MCP has no caller");
    return caller;
  }

  async #closeOldest(): Promise<void> {
    if (this.#open.size <= MAX_OPEN) return;
    const oldest = [...this.#open].find(([, { uses }]) => uses === 0);
    if (oldest === undefined) return;
    this.#open.delete(oldest[0]);
    await closeOne(oldest[1]);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
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
