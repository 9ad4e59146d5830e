// The tools of a Glovebox as an MCP server, for one connection or one request, in either era of the protocol.
import { McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";
import { packageVersion } from "../../package-version.ts";
import { callTool, type McpCallContext, type McpHost } from "./call-tool.ts";
import type { McpCaller } from "./caller.ts";
import { toInputSchema } from "./tool-arguments.ts";
import { toToolPage } from "./tool-list.ts";
import type { WaitingCalls } from "./waiting-calls.ts";

/** What is served, and as what. */
export interface McpServerOptions {
  /** As clients see it; `glovebox` and the package's version unless stated. */
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly title?: string | undefined;
  /** How a model is to use these tools. */
  readonly instructions?: string | undefined;
  /** For every call: `timeoutMs`, `executionId` … */
  readonly context?: McpCallContext | undefined;
  /** What is served beside the tools: resources, prompts, completions, registered with the SDK's own methods. */
  readonly register?: ((server: McpServer, caller: McpCaller) => void) | undefined;
}

/** Without it the machinery calls a cursor that is no text an error of ours. */
const ListParamsSchema = z.looseObject({ cursor: z.string().optional() });

/** @param waiting of all requests of the same endpoint */
export function createServer(
  host: McpHost,
  caller: McpCaller,
  waiting: WaitingCalls,
  { name = "glovebox", version = packageVersion(), title, instructions, context, register }: McpServerOptions,
): McpServer {
  const info = { name, version, ...(title === undefined ? {} : { title }) };
  const mcp = new McpServer(info, {
    capabilities: { tools: { listChanged: true }, logging: {} },
    ...(instructions === undefined ? {} : { instructions }),
    requestState: { verify: (state, ctx) => waiting.codec.verify(state, ctx) },
  });
  const { server } = mcp;
  const { tenantId } = caller;
  server.setRequestHandler("tools/list", { params: ListParamsSchema }, async ({ cursor }) =>
    toToolPage(await host.listTools({ tenantId }), cursor),
  );
  server.setRequestHandler("tools/call", ({ params }, ctx) =>
    callTool({ host, caller, waiting, server, context }, params, ctx),
  );
  // Asked before a call over HTTP: headers that a tool wants for its arguments (x-mcp-header) have to say what these say.
  mcp.toolInputSchemaJson = (toolName) => {
    const tool = host.router.registry.get(toolName, tenantId);
    return tool && toInputSchema(tool.definition.inputSchema);
  };
  register?.(mcp, caller);
  return mcp;
}
