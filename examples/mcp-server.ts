// An MCP server over stdin and stdout: an MCP client starts it as a program and finds the tools of a Glovebox.
// Shows tools with schemas, instructions for the model, and how a failure reaches the client. See mcp-client.ts for a client.
//
// Run: node mcp-server.ts
// In the settings of an MCP client: { "command": "node", "args": ["mcp-server.ts"] }
import { createGlovebox } from "glovebox";
import { serveMcpStdio } from "glovebox/mcp";

const slugSource = `
  export const description = "Turns a title into a URL slug";
  export const inputSchema = {
    type: "object",
    properties: { title: { type: "string", minLength: 1 } },
    required: ["title"],
  };
  export const outputSchema = { type: "object", properties: { slug: { type: "string" } }, required: ["slug"] };
  export default ({ title }) => {
    const letters = title.normalize("NFKD").replace(/\\p{Mark}/gu, "").toLowerCase();
    const slug = letters.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
    if (slug === "") throw new Error("The title has no letters or digits: " + JSON.stringify(title));
    return { slug };
  };
`;
const countSource = `
  export const description = "Counts the words of a text";
  export const inputSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
  export default ({ text }) => text.split(/\\s+/).filter(Boolean).length;
`;

await using glovebox = await createGlovebox({ limits: { timeoutMs: 30_000, memoryMiB: 64 } });
await glovebox.addTool({ name: "slugify", source: slugSource });
await glovebox.addTool({ name: "count-words", source: countSource });

// stdout belongs to the protocol, so messages for people go to stderr.
await using server = serveMcpStdio(glovebox, {
  name: "text-tools",
  version: "1.0.0",
  instructions: "Tools for titles and texts. They have no network and no files.",
  onError: (error) => console.error(error),
});
console.error("Serving slugify and count-words over stdin and stdout");
await server.closed;
