// A host that calls the tools of an MCP server next to its own: one list, one way to call, one form of result.
// Starts mcp-server.ts as its server. For a server at an address, write { url: "https://…" } in place of command and args.
//
// Run: node mcp-client.ts
import { createGlovebox } from "glovebox";

await using glovebox = await createGlovebox({
  limits: { timeoutMs: 30_000 },
  mcp: {
    servers: {
      text: {
        command: process.execPath,
        // The flags of this process, such as --import, apply to the server too.
        args: [...process.execArgv, `${import.meta.dirname}/mcp-server.ts`],
        tools: { allow: ["slugify"] },
      },
    },
  },
});
await glovebox.addTool({
  name: "publish",
  source: "export default async ({ title }, { tools }) => '/posts/' + (await tools.text__slugify({ title })).slug",
  // A sandboxed tool may call the tools that its host names, those of MCP servers included.
  overrides: { description: "Publishes a post", capabilities: { tools: ["text__slugify"] } },
});

// The server is started by the first list or call.
for (const { name, description } of await glovebox.listTools()) console.log(`${name}: ${description}`);

const calls = [
  { id: "call-1", toolName: "text__slugify", arguments: { title: "Hello, World!" } },
  { id: "call-2", toolName: "publish", arguments: { title: "Crème brûlée at home" } },
  { id: "call-3", toolName: "text__slugify", arguments: { title: "???" } },
  { id: "call-4", toolName: "text__slugify", arguments: {} },
];
for (const call of calls) {
  const result = await glovebox.execute(call);
  console.log(result.success ? JSON.stringify(result.output) : `${result.error.code}: ${result.error.message}`);
}
for (const { server, state } of glovebox.mcp.servers()) console.log(`Server ${server} is ${state}`);
