// Serves MCP over the stdin and stdout of this process, for the client that started it.

import type { JSONRPCMessage, McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { notifySafely } from "../../util/host-callback.ts";
import { createServer } from "./mcp-server.ts";
import { checkHost, type McpStdioOptions, parseStdioOptions } from "./options.ts";
import { rejectTaskSubscription } from "./tasks/task-subscriptions.ts";
import type { McpHost } from "./tools/call-tool.ts";
import { CallsAwaitingInput } from "./tools/calls-awaiting-input.ts";
import { notifyToolsChanged, watchTools } from "./tools/tool-changes.ts";
import { rejectUnsupportedVersion } from "./unsupported-version.ts";

/** Result of {@link serveMcpStdio}. Disposing it has the effect of `close()`. */
export interface StdioServer extends AsyncDisposable {
  /** Resolves when the client has closed stdin or stdout, or `close()` was called. Running calls have been cancelled by then. */
  readonly closed: Promise<void>;
  /** Cancels running calls and stops serving. The Glovebox stays open. */
  close(): Promise<void>;
}

/** A stdio transport that reports when it is closed. The end of stdin, a closed stdout and a message that is too long close it. */
class ClosingTransport extends StdioServerTransport {
  onClosed: () => void = () => {};

  override async close(): Promise<void> {
    await super.close();
    this.onClosed();
  }
}

/** Answers the messages of a client that the SDK would not reject. */
function rejectMessages(
  transport: ClosingTransport,
  rejections: readonly ((message: JSONRPCMessage) => JSONRPCMessage | undefined)[],
  onError: (error: unknown) => void,
): void {
  const { onmessage } = transport;
  transport.onmessage = (message) => {
    const rejected = rejections.map((reject) => reject(message)).find((rejection) => rejection !== undefined);
    if (rejected === undefined) onmessage?.(message);
    else transport.send(rejected).catch(onError);
  };
}

/**
 * Serves the tools of a Glovebox over MCP's stdio transport. No other code in the process may write to stdout. The caller disposes the
 * server, before the Glovebox.
 * @throws {ToolError} PARAM_INVALID for a `host` that is not a Glovebox, for an unknown or invalid option, and for a missing or unexpected
 *   tenant
 * @example
 * ```typescript
 * import { createGlovebox } from "glovebox";
 * import { serveMcpStdio } from "glovebox/mcp";
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/add.ts" });
 * await using server = serveMcpStdio(glovebox, { name: "calculator", version: "1.0.0" });
 * await server.closed;
 * ```
 */
export function serveMcpStdio(host: McpHost, options: McpStdioOptions = {}): StdioServer {
  checkHost(host);
  const parsed = parseStdioOptions(options);
  const { stdin = process.stdin, stdout = process.stdout } = parsed;
  const tenantId = host.router.tenancy.tenantOf(parsed.tenantId);
  const onError = (error: unknown): void => notifySafely(parsed.onError, error);
  const waiting = new CallsAwaitingInput(({ mcpReq }) => mcpReq.method);
  const closed = Promise.withResolvers<void>();
  const transport = new ClosingTransport(stdin, stdout);
  // The SDK may create a server for `server/discover` and another one for the connection.
  const servers = new Set<McpServer>();
  const create = async (): Promise<McpServer> => {
    const server = await createServer(host, { tenantId, principal: "" }, waiting, { ...parsed, onError });
    servers.add(server);
    return server;
  };
  const subscription = watchTools(host.router.registry, (changed) => {
    if (changed !== undefined && changed !== tenantId) return;
    for (const server of servers) notifyToolsChanged(server);
  });
  const handle = serveStdio(create, { transport, onerror: onError });
  const rejectTasks = parsed.runs === undefined ? [] : [rejectTaskSubscription];
  rejectMessages(transport, [rejectUnsupportedVersion, ...rejectTasks], onError);
  const end = (): void => {
    subscription[Symbol.dispose]();
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
