// An upstream MCP server as its authors would write it: for both protocol eras and any transport.
import { acceptedContent, inputRequired, McpServer, type McpServerFactory } from "@modelcontextprotocol/server";
import * as z from "zod";

const text = (said: string): { content: { type: "text"; text: string }[] } => ({
  content: [{ type: "text", text: said }],
});
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Calls that the serving process has received, for tests in the same process. */
export interface ToolEvents {
  readonly aborted: string[];
  /** Calls of `hang` that have begun. */
  readonly begun: string[];
  readonly metas: unknown[];
}

/** Registers the same tools on each server. `events` receives the calls if it is in the same process. */
export function createToolServer(events: ToolEvents = { aborted: [], begun: [], metas: [] }): McpServerFactory {
  return ({ era }) => {
    const server = new McpServer(
      { name: "test-tools", version: "1.2.3" },
      { capabilities: { tools: { listChanged: true }, logging: {} } },
    );
    server.registerTool(
      "echo",
      {
        description: "Says it again",
        inputSchema: z.object({ said: z.string() }),
        annotations: { readOnlyHint: true, title: "Echo" },
      },
      ({ said }, { mcpReq }) => {
        events.metas.push(mcpReq._meta);
        return text(said);
      },
    );
    server.registerTool(
      "add",
      { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
      ({ a, b }) => ({ ...text(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }),
    );
    server.registerTool("fail", { inputSchema: z.object({}) }, () => ({
      ...text("The disk is full"),
      isError: true,
    }));
    server.registerTool("reject", { inputSchema: z.object({ value: z.unknown() }) }, () => text("never"));
    server.registerTool("show", { inputSchema: z.object({}) }, () => ({
      content: [
        { type: "text", text: "A pixel:" },
        { type: "image", data: PIXEL, mimeType: "image/png", annotations: { audience: ["user"] } },
        { type: "audio", data: "AAEC", mimeType: "audio/wav" },
        { type: "resource", resource: { uri: "mem://a", text: "a", mimeType: "text/plain" } },
        { type: "resource", resource: { uri: "mem://b", blob: "AAEC" } },
        { type: "resource_link", uri: "mem://c", name: "c", size: 3 },
      ],
    }));
    server.registerTool(
      "steps",
      { inputSchema: z.object({ steps: z.number(), everyMs: z.number() }) },
      async ({ steps, everyMs }, { mcpReq }) => {
        const progressToken = mcpReq._meta?.progressToken;
        for (let progress = 1; progress <= steps; progress += 1) {
          await new Promise((resolve) => setTimeout(resolve, everyMs));
          if (progressToken === undefined) continue;
          await mcpReq.notify({
            method: "notifications/progress",
            params: { progressToken, progress, total: steps, message: `step ${progress}` },
          });
        }
        return text(`${steps} steps`);
      },
    );
    server.registerTool("hang", { inputSchema: z.object({ id: z.string() }) }, ({ id }, { mcpReq }) => {
      events.begun.push(id);
      mcpReq.signal.addEventListener("abort", () => events.aborted.push(id));
      return new Promise<never>(() => {});
    });
    server.registerTool(
      "log",
      { inputSchema: z.object({ lines: z.array(z.string()) }) },
      async ({ lines }, { mcpReq }) => {
        for (const line of lines) await mcpReq.log("warning", line, "author");
        return text("logged");
      },
    );
    server.registerTool("die", { inputSchema: z.object({}) }, () => process.exit(3));
    server.registerTool("pid", { inputSchema: z.object({}) }, () => text(String(process.pid)));
    server.registerTool("environment", { inputSchema: z.object({}) }, () => text(JSON.stringify(process.env)));
    const nameSchema = z.object({ name: z.string(), tea: z.boolean() });
    server.registerTool("ask", { inputSchema: z.object({}) }, async (_input, { mcpReq }) => {
      const request = {
        message: "Who are you?",
        requestedSchema: {
          type: "object",
          properties: { name: { type: "string" }, tea: { type: "boolean", default: true } },
          required: ["name"],
        } as const,
      };
      if (era === "legacy") {
        const { action, content } = await mcpReq.elicitInput({ mode: "form", ...request } as never);
        return text(`${action} ${JSON.stringify(content)}`);
      }
      const answer = mcpReq.inputResponses?.who as { readonly action?: string } | undefined;
      if (answer === undefined)
        return inputRequired({ inputRequests: { who: inputRequired.elicit(request as never) } });
      return text(`${answer.action} ${JSON.stringify(acceptedContent(mcpReq.inputResponses, "who", nameSchema))}`);
    });
    return server;
  };
}
