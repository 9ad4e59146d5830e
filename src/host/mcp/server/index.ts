// "glovebox/mcp": the tools of a Glovebox, served to MCP clients.
/// <reference types="node" preserve="true" />
export { ALGORITHMS, type Algorithm } from "./access-token.ts";
export { createResourceServer, type OAuthResourceServer, type ResourceServerOptions } from "./auth.ts";
export type { McpCallContext, McpHost } from "./call-tool.ts";
export type { AuthenticatedCaller, McpCaller, McpRequest, ResourceServer } from "./caller.ts";
export type { GuardOptions } from "./guards.ts";
export { createMcpHandler, type McpHandler } from "./handler.ts";
export type { HttpLimitOptions, SharedLimit } from "./http-limits.ts";
export type { HttpSessionOptions } from "./http-sessions.ts";
export type { McpServerOptions } from "./mcp-server.ts";
export type { McpHandlerOptions, McpStdioOptions } from "./options.ts";
export { type StdioServer, serveMcpStdio } from "./stdio.ts";
export type { McpTaskOwner, McpTaskRun, McpTaskRuns } from "./task-runs.ts";
export { ERROR_CODE_META } from "./tool-result.ts";
