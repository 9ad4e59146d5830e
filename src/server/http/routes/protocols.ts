// Routes of other protocols: MCP, and a tenant's tools in OpenAI's format.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { toOpenAITools } from "../../../host/openai/index.ts";
import type { App, AppEnv, ServerParts } from "../context.ts";
import { addRoute, json } from "../route.ts";
import { OpenAIToolsSchema } from "../schemas.ts";
import { TenantParamsSchema } from "./tenants.ts";

const OpenAIQuerySchema = z.strictObject({ api: z.enum(["responses", "chat"]).default("responses") });

export function addProtocolRoutes(app: App, parts: ServerParts): void {
  const serveMcp = async (c: Context<AppEnv>): Promise<Response> =>
    await parts.mcp.fetch(c.req.raw, { tenant: c.get("tenant"), keyId: c.get("principal").keyId });
  const responses = { 200: json(z.any(), "A JSON-RPC message, or a stream of them") };
  const params = TenantParamsSchema;

  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/mcp",
    { summary: "Sends a message of the Model Context Protocol (Streamable HTTP)", params, responses },
    serveMcp,
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/mcp",
    { summary: "Opens the stream of notifications of an MCP session", params, responses },
    serveMcp,
  );
  addRoute(
    app,
    parts,
    "DELETE /v1/tenants/{tenant}/mcp",
    { summary: "Ends an MCP session", params, responses },
    serveMcp,
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/openai/tools",
    {
      summary: "Returns the tenant's tools in OpenAI's format",
      description: "`names` maps the names that the model sees to the names of the tools.",
      params,
      query: OpenAIQuerySchema,
      responses: { 200: json(OpenAIToolsSchema, "The tools") },
    },
    async (c, { query }) => {
      const { id, revision } = c.get("tenant");
      await parts.tools.ensureAll(id, revision);
      const definitions = await parts.box.router.listTools({ tenantId: id });
      const { tools, notes } = toOpenAITools(definitions, { api: query.api });
      const names = Object.fromEntries(notes.map(({ alias, toolName }) => [alias, toolName]));
      return c.json({ tools, names }, 200);
    },
  );
}
