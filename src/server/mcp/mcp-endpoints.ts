// Opens the MCP endpoints of the tenants with the first request to them: their modules take a third of the CPU time of the server's start.
import type { CallCaller } from "../calls/call-request.ts";
import type { TenantCodeMode } from "./tenant-code-mode.ts";
import type { TenantMcp, TenantMcpDependencies } from "./tenant-mcp.ts";

/** Answers MCP requests whose key and tenant have been checked. */
export interface McpEndpoint {
  fetch(request: Request, caller: CallCaller): Promise<Response>;
  close(): Promise<void>;
}

class LazyEndpoint<Endpoint extends McpEndpoint> implements McpEndpoint, AsyncDisposable {
  readonly #open: () => Promise<Endpoint>;
  #endpoint: Promise<Endpoint> | undefined;

  constructor(open: () => Promise<Endpoint>) {
    this.#open = open;
  }

  /** Returns the endpoint, which is opened if it is not yet. */
  async open(): Promise<Endpoint> {
    this.#endpoint ??= this.#open();
    return await this.#endpoint;
  }

  async fetch(request: Request, caller: CallCaller): Promise<Response> {
    return await (await this.open()).fetch(request, caller);
  }

  async close(): Promise<void> {
    await (await this.#endpoint)?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Returns the endpoint of the tenants' tools. */
export const openTenantMcp = (dependencies: TenantMcpDependencies): LazyEndpoint<TenantMcp> =>
  new LazyEndpoint(async () => new (await import("./tenant-mcp.ts")).TenantMcp(dependencies));

/** Returns the endpoint of the tenants' code mode. */
export const openTenantCodeMode = (dependencies: TenantMcpDependencies): LazyEndpoint<TenantCodeMode> =>
  new LazyEndpoint(async () => new (await import("./tenant-code-mode.ts")).TenantCodeMode(dependencies));
