// box.mcp: the upstream servers that the host has named. Nothing is started before somebody asks for their tools or calls one.
import { unavailable } from "../../../sandbox/errors.ts";
import { parseOptions } from "../../option-problems.ts";
import type { ToolRouter } from "../../router.ts";
import { type McpServerConfig, McpServerNameSchema, type McpServerOptions, McpServerSchema } from "./mcp-options.ts";
import { type McpServerStatus, UpstreamServer, type UpstreamServerParts } from "./upstream-server.ts";

export class McpManager implements AsyncDisposable {
  readonly #router: ToolRouter;
  readonly #parts: UpstreamServerParts;
  readonly #servers = new Map<string, UpstreamServer>();
  #isClosed = false;

  /** @internal use `createGlovebox({ mcp })` */
  constructor(router: ToolRouter, parts: UpstreamServerParts) {
    this.#router = router;
    this.#parts = parts;
  }

  /**
   * Adds a server. It is not started.
   * @throws {ToolError} PARAM_INVALID for options that are wrong; NAME_TAKEN for a name that another source has; TOOL_UNAVAILABLE when Glovebox is
   *   closed
   */
  addServer(name: string, options: McpServerOptions): void {
    this.add(name, parseOptions<McpServerConfig>(McpServerSchema, options, "options"));
  }

  /** @internal with options that have been parsed */
  add(name: string, config: McpServerConfig): void {
    if (this.#isClosed) throw unavailable("closed", "Glovebox is closed");
    const server = new UpstreamServer(
      parseOptions(McpServerNameSchema, name, "The server's name"),
      config,
      this.#parts,
    );
    server.source = this.#router.addSource(name, server);
    this.#servers.set(name, server);
  }

  /**
   * Takes a server out, with its tools; calls of them that run end. False when there was none.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for what is no name
   */
  async removeServer(name: string): Promise<boolean> {
    parseOptions(McpServerNameSchema, name, "The server's name");
    const server = this.#servers.get(name);
    if (server === undefined) return false;
    this.#servers.delete(name);
    await server[Symbol.asyncDispose]();
    return true;
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
