// An MCP server with one tool, `add`, over HTTP in a process of its own: the SDK's own, as its documentation shows one, or ours. Says its
// URL, and ends with its stdin.
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { createMcpHandler as createSdkHandler, McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";
import { createGlovebox } from "../../src/host/index.ts";
import { createMcpHandler } from "../../src/host/mcp/server/index.ts";

const ADD = `
  export const description = "Adds two numbers";
  export const inputSchema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
  export const outputSchema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
  export default ({ a, b }) => ({ sum: a + b });`;

function sdkServer(): McpServer {
  const server = new McpServer({ name: "example", version: "1.0.0" });
  server.registerTool(
    "add",
    {
      description: "Adds two numbers",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    },
    async ({ a, b }) => {
      const output = { sum: a + b };
      return { content: [{ type: "text", text: JSON.stringify(output) }], structuredContent: output };
    },
  );
  return server;
}

async function open(kind: string): Promise<(request: Request) => Promise<Response>> {
  if (kind === "sdk") return createSdkHandler(sdkServer).fetch;
  const glovebox = await createGlovebox();
  if (kind === "host") {
    const schema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } } as const;
    glovebox.router.register("add", { inputSchema: schema, outputSchema: { type: "object" } }, (input) => {
      const { a, b } = input as { readonly a: number; readonly b: number };
      return { sum: a + b };
    });
  } else await glovebox.addTool({ name: "add", source: ADD }, { isolateLifetime: kind === "tool" ? "tool" : "call" });
  return createMcpHandler(glovebox).fetch;
}

const fetch = await open(process.argv[2] ?? "sdk");
const server = serve({ fetch, port: 0, hostname: "127.0.0.1" }, ({ port }: AddressInfo) => {
  console.log(`http://127.0.0.1:${port}/mcp`);
});
process.stdin.on("end", () => process.exit(0)).resume();
server.unref?.();
