// The MCP server over this process's stdin and stdout, for the one client that has started it.

import type { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { notifySafely } from "../../util/host-callback.ts";
import type { McpHost } from "./call-tool.ts";
import { createServer } from "./mcp-server.ts";
import { checkHost, type McpStdioOptions, parseStdioOptions } from "./options.ts";
import { notifyToolsChanged, watchTools } from "./tool-changes.ts";
import { WaitingCalls } from "./waiting-calls.ts";

export interface McpStdioServer extends AsyncDisposable {
  /** Resolves when the client has gone: its end of stdin or stdout is closed. Calls still running have been cancelled. */
  readonly closed: Promise<void>;
  close(): Promise<void>;
}

/** Closed by the end of stdin, by a stdout that nobody reads, and by a message that is too long: none of these is a client any more. */
class ClosingTransport extends StdioServerTransport {
  onClosed: () => void = () => {};

  override async close(): Promise<void> {
    await super.close();
    this.onClosed();
  }
}

/**
 * Serves the tools of a Glovebox over MCP's stdio transport. Nothing else of the process may write to stdout. Dispose it before the
 * Glovebox.
 * @throws {ToolError} PARAM_INVALID for a `host` that is not a Glovebox, for an unknown or invalid option, and for a missing or unexpected
 *   tenant
 */
export function serveMcpStdio(host: McpHost, options: McpStdioOptions = {}): McpStdioServer {
  checkHost(host);
  const parsed = parseStdioOptions(options);
  const { stdin = process.stdin, stdout = process.stdout } = parsed;
  const tenantId = host.router.tenancy.tenantOf(parsed.tenantId);
  const onError = (error: unknown): void => notifySafely(parsed.onError, error);
  const waiting = new WaitingCalls(({ mcpReq }) => mcpReq.method);
  const closed = Promise.withResolvers<void>();
  const transport = new ClosingTransport(stdin, stdout);
  // One that answers `server/discover`, perhaps, and the one that goes on.
  const servers = new Set<McpServer>();
  const create = async (): Promise<McpServer> => {
    const server = await createServer(host, { tenantId, principal: "" }, waiting, { ...parsed, onError });
    servers.add(server);
    return server;
  };
  const watch = watchTools(host.router.registry, (changed) => {
    if (changed !== undefined && changed !== tenantId) return;
    for (const server of servers) notifyToolsChanged(server);
  });
  const handle = serveStdio(create, { transport, onerror: onError });
  const end = (): void => {
    watch[Symbol.dispose]();
    waiting[Symbol.dispose]();
    closed.resolve();
  };
  transport.onClosed = end;
  const close = async (): Promise<void> => {
    await handle.close();
    end();
  };
  return { closed: closed.promise, close, [Symbol.asyncDispose]: close };
}
