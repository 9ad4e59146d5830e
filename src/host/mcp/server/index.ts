// "glovebox/mcp": the tools of a Glovebox, served to MCP clients.
/// <reference types="node" preserve="true" />
export { ALGORITHMS, type Algorithm } from "./authorization/access-token.ts";
export { createResourceServer, type OAuthResourceServer, type ResourceServerOptions } from "./authorization/auth.ts";
export type { AuthenticatedCaller, McpCaller, McpRequest, ResourceServer } from "./authorization/caller.ts";
export type { GuardOptions } from "./http/guards.ts";
export { createMcpHandler, type McpHandler } from "./http/handler.ts";
export type { HttpLimitOptions, SharedLimit } from "./http/http-limits.ts";
export type { HttpSessionOptions } from "./http/http-sessions.ts";
export type { McpServerOptions } from "./mcp-server.ts";
export type { McpHandlerOptions, McpStdioOptions } from "./options.ts";
export { type StdioServer, serveMcpStdio } from "./stdio.ts";
export type { McpTaskOwner, McpTaskRun, McpTaskRuns } from "./tasks/task-runs.ts";
export type { McpCallContext, McpHost } from "./tools/call-tool.ts";
export type { CallerWatch } from "./tools/calls-awaiting-input.ts";
export { ERROR_CODE_META } from "./tools/tool-result.ts";
