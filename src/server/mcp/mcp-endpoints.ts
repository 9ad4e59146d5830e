// Opens the MCP endpoints of the tenants with the first request to them: their modules take a third of the CPU time of the server's start.
import type { CallCaller } from "../calls/call-request.ts";
import type { TenantMcpParts } from "./tenant-mcp.ts";

/** Answers MCP requests whose key and tenant have been checked. */
export interface McpEndpoint {
  fetch(request: Request, caller: CallCaller): Promise<Response>;
  close(): Promise<void>;
}

class LazyEndpoint implements McpEndpoint, AsyncDisposable {
  readonly #open: () => Promise<McpEndpoint>;
  #endpoint: Promise<McpEndpoint> | undefined;

  constructor(open: () => Promise<McpEndpoint>) {
    this.#open = open;
  }

  async fetch(request: Request, caller: CallCaller): Promise<Response> {
    this.#endpoint ??= this.#open();
    return await (await this.#endpoint).fetch(request, caller);
  }

  async close(): Promise<void> {
    await (await this.#endpoint)?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Returns the endpoint of the tenants' tools. */
export const openTenantMcp = (parts: TenantMcpParts): LazyEndpoint =>
  new LazyEndpoint(async () => new (await import("./tenant-mcp.ts")).TenantMcp(parts));

/** Returns the endpoint of the tenants' code mode. */
export const openTenantCodeMode = (parts: TenantMcpParts): LazyEndpoint =>
  new LazyEndpoint(async () => new (await import("./tenant-code-mode.ts")).TenantCodeMode(parts));
