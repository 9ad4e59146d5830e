// Manages the upstream MCP servers of a Glovebox (`glovebox.mcp`). A server is started when its tools are first listed or called.
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
import { type McpServerStatus, UpstreamServer, type UpstreamServerDependencies } from "./upstream-server.ts";

/** Checks that the options name the server's tenants, or all tenants, as the tenancy requires. @throws {ToolError} PARAM_INVALID */
function checkTenants({ tenants, scope }: McpServerConfig, { mode }: Tenancy, where: string): void {
  const fail = (message: string): never => {
    throw new ToolError("PARAM_INVALID", `${where}${message}`);
  };
  if (mode === "single" && tenants !== undefined)
    fail('.tenants: Needs tenancy: "multi"; this Glovebox has one tenant');
  if (tenants !== undefined && scope !== undefined) fail(': Expected one of tenants and scope: "global", got both');
  if (mode === "multi" && tenants === undefined && scope === undefined) {
    fail(
      '.tenants: Missing; with tenancy: "multi" list the tenants that can use its tools, or set scope: "global" for all tenants',
    );
  }
}

/** The upstream MCP servers of a Glovebox, as `glovebox.mcp`. A server is started when its tools are first listed or called. */
export class McpManager implements AsyncDisposable {
  readonly #router: ToolRouter;
  readonly #dependencies: Omit<UpstreamServerDependencies, "tenancy">;
  readonly #servers = new Map<string, UpstreamServer>();
  #isClosed = false;

  /** @internal use `createGlovebox({ mcp })` */
  constructor(router: ToolRouter, dependencies: Omit<UpstreamServerDependencies, "tenancy">) {
    this.#router = router;
    this.#dependencies = dependencies;
  }

  /**
   * Adds a server. The server is not started before its tools are needed.
   * @param name 1 to 64 characters out of A-Z a-z 0-9 _ - .
   * @throws {ToolError} PARAM_INVALID for invalid options, and for missing or unexpected tenants; NAME_TAKEN if another tool source has the
   *   name; TOOL_UNAVAILABLE if the Glovebox is closed
   */
  addServer(name: string, options: UpstreamServerOptions): void {
    this.add(name, parseOptions<McpServerConfig>(McpServerSchema, options, "options"), "options");
  }

  /**
   * Adds a server with parsed options.
   * @internal
   * @param where path of the options, for error messages
   */
  add(name: string, config: McpServerConfig, where: string): void {
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    const { tenancy } = this.#router;
    const serverName = parseOptions(McpServerNameSchema, name, "The server's name");
    checkTenants(config, tenancy, where);
    const server = new UpstreamServer(serverName, config, { ...this.#dependencies, tenancy });
    server.source = this.#router.addToolProvider(name, server);
    this.#servers.set(name, server);
  }

  /**
   * Removes a server with its tools. Running calls of its tools fail.
   * @returns false if there is no server with this name
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an invalid name
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
   * Removes a tenant from all servers. A server that was configured for this tenant only is removed.
   * @returns the number of removed servers, and of closed connections that belonged to the tenant
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

  /** Returns the status of each connection of each server, for the operator. */
  servers(): readonly McpServerStatus[] {
    return [...this.#servers.values()].flatMap(({ status }) => status);
  }

  /** Closes all connections and ends the servers' processes, in bounded time. A second call has no effect. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const servers = [...this.#servers.values()];
    this.#servers.clear();
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  }
}
