// box.mcp: the upstream servers that the host has named. Nothing is started before somebody asks for their tools or calls one.
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { parseOptions } from "../../config/option-errors.ts";
import type { ToolRouter } from "../../routing/tool-router.ts";
import type { Tenancy } from "../../tenants/tenancy.ts";
import { deferFailure } from "../../util/defer-failure.ts";
import {
  type McpServerConfig,
  McpServerNameSchema,
  McpServerSchema,
  type UpstreamServerOptions,
} from "./mcp-options.ts";
import { type McpServerStatus, UpstreamServer, type UpstreamServerParts } from "./upstream-server.ts";

/** A server serves the tenants that it names, or all of them if it says so. @throws {ToolError} PARAM_INVALID */
function checkTenants({ tenants, scope }: McpServerConfig, { mode }: Tenancy, where: string): void {
  const fail = (message: string): never => {
    throw new ToolError("PARAM_INVALID", `${where}${message}`);
  };
  if (mode === "single" && tenants !== undefined)
    fail('.tenants: Needs tenancy: "multi"; this Glovebox has one tenant');
  if (tenants !== undefined && scope !== undefined) fail(': Expected one of tenants and scope: "global", got both');
  if (mode === "multi" && tenants === undefined && scope === undefined) {
    fail(
      '.tenants: Missing; with tenancy: "multi" list the tenants that have its tools, or set scope: "global" for all tenants',
    );
  }
}

export class McpManager implements AsyncDisposable {
  readonly #router: ToolRouter;
  readonly #parts: Omit<UpstreamServerParts, "tenancy">;
  readonly #servers = new Map<string, UpstreamServer>();
  #isClosed = false;

  /** @internal use `createGlovebox({ mcp })` */
  constructor(router: ToolRouter, parts: Omit<UpstreamServerParts, "tenancy">) {
    this.#router = router;
    this.#parts = parts;
  }

  /**
   * Adds a server. It is not started.
   * @throws {ToolError} PARAM_INVALID for options that are wrong, or missing or unexpected tenants; NAME_TAKEN for a name that another source
   *   has; TOOL_UNAVAILABLE when Glovebox is closed
   */
  addServer(name: string, options: UpstreamServerOptions): void {
    this.add(name, parseOptions<McpServerConfig>(McpServerSchema, options, "options"), "options");
  }

  /**
   * @internal with options that have been parsed
   * @param where their path, for the error
   */
  add(name: string, config: McpServerConfig, where: string): void {
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    const { tenancy } = this.#router;
    const serverName = parseOptions(McpServerNameSchema, name, "The server's name");
    checkTenants(config, tenancy, where);
    const server = new UpstreamServer(serverName, config, { ...this.#parts, tenancy });
    server.source = this.#router.addSource(name, server);
    this.#servers.set(name, server);
  }

  /**
   * Takes a server out, with its tools; calls of them that run end. False when there was none.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for what is no name
   */
  removeServer(name: string): Promise<boolean> {
    return deferFailure(async () => {
      parseOptions(McpServerNameSchema, name, "The server's name");
      const server = this.#servers.get(name);
      if (server === undefined) return false;
      this.#servers.delete(name);
      await server[Symbol.asyncDispose]();
      return true;
    });
  }

  /**
   * Ends what servers do for a tenant. A server that was configured for this tenant alone is removed.
   * @returns how many servers were removed, and how many connections of the tenant's own were ended
   * @internal
   */
  async deleteTenant(tenantId: string): Promise<{ readonly servers: number; readonly connections: number }> {
    let [servers, connections] = [0, 0];
    for (const [name, server] of [...this.#servers]) {
      const wasUnused = server.isUnused;
      connections += await server.removeTenant(tenantId);
      if (wasUnused || !server.isUnused) continue;
      servers += 1;
      await this.removeServer(name);
    }
    return { servers, connections };
  }

  /** Each server with its connections, for the operator. */
  servers(): readonly McpServerStatus[] {
    return [...this.#servers.values()].flatMap(({ status }) => status);
  }

  /** Ends all connections, and all processes behind them, in bounded time. Twice is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const servers = [...this.#servers.values()];
    this.#servers.clear();
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  }
}
