// Routes of other protocols: MCP, and a tenant's tools in OpenAI's format.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { toOpenAITools } from "../../../host/openai/index.ts";
import { TOOL_NAME_PATTERN } from "../../../sandbox/contract/tool-name.ts";
import type { CallCaller } from "../../calls/call-request.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { pageQueryOf } from "../schemas/common.ts";
import { MCP_DELETE, MCP_GET, MCP_POST } from "../schemas/mcp.ts";
import { OpenAIToolsSchema } from "../schemas/tools.ts";
import { TenantParamsSchema } from "./tenants.ts";

/** As many tools as OpenAI's API accepts in one request. */
const MAX_OPENAI_TOOLS = 128;
const OpenAIQuerySchema = pageQueryOf(TOOL_NAME_PATTERN).extend({
  api: z.enum(["responses", "chat"]).default("responses"),
  limit: z.coerce.number().int().min(1).max(MAX_OPENAI_TOOLS).default(MAX_OPENAI_TOOLS),
});

export function addProtocolRoutes(app: App, dependencies: ServerDependencies): void {
  const callerOf = (c: Context<AppEnv>): CallCaller => {
    // A DELETE calls no tool, and has no stream.
    const stream = c.req.method === "DELETE" ? undefined : c.get("stream");
    // The stream of notifications is opened again by its client.
    if (c.req.method === "GET") stream?.limitTime();
    // The stream ends with the right of its sender.
    const isValid = (): boolean => stream?.signal.aborted !== true;
    const [principal, tenant] = [c.get("principal"), c.get("tenant")];
    const watch = () => dependencies.streams.watch(principal, tenant.id);
    return { tenant, keyId: principal.keyId, isValid, watch };
  };
  /** Adds the headers of every response to one that the SDK has created. */
  const withHeaders = (c: Context<AppEnv>, { body, status, headers }: Response): Response => {
    for (const [name, value] of headers) c.header(name, value);
    return c.newResponse(body, status as 200);
  };
  const serveMcp = async (c: Context<AppEnv>): Promise<Response> =>
    withHeaders(c, await dependencies.mcp.fetch(c.req.raw, callerOf(c)));
  const params = TenantParamsSchema;
  const streams = (): boolean => true;

  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/mcp",
    {
      summary: "Sends a message of the Model Context Protocol (Streamable HTTP)",
      description:
        "Serves revision 2026-07-28, whose requests are independent of each other, and the revisions of 2025, whose sessions begin with `initialize`. There, `Accept` must contain `application/json` and `text/event-stream`.",
      params,
      ...MCP_POST,
      streams,
    },
    serveMcp,
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/mcp",
    {
      summary: "Opens the stream of notifications of an MCP session",
      description: "For sessions of a revision of 2025. `Accept` must contain `text/event-stream`.",
      params,
      ...MCP_GET,
      streams,
    },
    serveMcp,
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/mcp",
    { summary: "Ends an MCP session", params, ...MCP_DELETE },
    serveMcp,
  );
  const serveCodeMode = async (c: Context<AppEnv>): Promise<Response> =>
    withHeaders(c, await dependencies.codeMode.fetch(c.req.raw, callerOf(c)));
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/code-mode/mcp",
    {
      summary: "Sends a message of the Model Context Protocol to the tenant's code mode",
      description:
        "It has three tools instead of the tenant's tools: search_tools, run_code, which starts a durable run, and get_run, which looks one up.",
      params,
      ...MCP_POST,
      streams,
    },
    serveCodeMode,
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/code-mode/mcp",
    { summary: "Opens the stream of notifications of an MCP session of the code mode", params, ...MCP_GET, streams },
    serveCodeMode,
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/code-mode/mcp",
    { summary: "Ends an MCP session of the code mode", params, ...MCP_DELETE },
    serveCodeMode,
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/openai/tools",
    {
      summary: "Returns the tenant's tools in OpenAI's format",
      description:
        "A page of up to 128 tools by name, as many as OpenAI's API accepts in one request, and fewer if they are long. `names` maps the names that the model sees to the names of the tools.",
      params,
      query: OpenAIQuerySchema,
      responses: { 200: json(OpenAIToolsSchema, "The tools") },
    },
    async (c, { query }) => {
      const { limit, cursor, api } = query;
      const { definitions, next } = await dependencies.tools.listDefinitions(c.get("tenant").id, {
        after: cursor,
        limit,
      });
      const { tools, notes } = toOpenAITools(definitions, { api });
      const names = Object.fromEntries(notes.map(({ alias, toolName }) => [alias, toolName]));
      return respondWithJson(c, { tools, names, next: next ?? null });
    },
  );
}
