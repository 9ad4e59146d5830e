// The server under test: a Glovebox with the suite's tools in its sandbox, behind the MCP handler, over real HTTP.
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import * as z from "zod";
import { createRuns, defineCapability, MemoryRunStore } from "../../src/host/index.ts";
import { createMcpHandler } from "../../src/host/mcp/server/index.ts";
import { makeGlovebox } from "../support/host-zone.ts";
import { registerSurroundings } from "./host-resources.ts";
import { SUITE_TOOLS } from "./tools.ts";

export interface SuiteServer extends AsyncDisposable {
  readonly url: string;
}

export async function startSuiteServer(): Promise<SuiteServer> {
  let changes = 0;
  const changeList = defineCapability({
    name: "changeList",
    description: "Changes what is served, and tells clients",
    inputSchema: z.object({ list: z.enum(["tools", "prompts"]) }),
    outputSchema: z.string(),
    handler: async ({ list }) => {
      if (list === "prompts") {
        handler.promptsChanged();
        return "prompts changed";
      }
      changes += 1;
      const name = `changed_${changes}`;
      await glovebox.addTool({ name, source: "export const description = 'New'; export default () => 1" });
      return name;
    },
  });
  const glovebox = await makeGlovebox({ limits: { timeoutMs: 120_000 }, capabilities: [changeList] });
  const runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 100, maxJournalLength: 64 * 1024 });
  const handler = createMcpHandler(glovebox, { name: "suite", register: registerSurroundings, runs });
  // In sequence, because each definition is extracted in its own process.
  for (const { name, source, asks = [] } of SUITE_TOOLS) {
    const capabilities = Object.fromEntries(asks.map((capability) => [capability, true]));
    await glovebox.addTool({ name, source, overrides: { capabilities } });
  }
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  const server = serve({ fetch: handler.fetch, port: 0, hostname: "127.0.0.1" }, resolve);
  const { port } = await promise;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    [Symbol.asyncDispose]: async () => {
      await handler.close();
      if ("closeAllConnections" in server) server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
      await runs.close();
      await glovebox.close();
    },
  };
}
