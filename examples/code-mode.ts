// Code mode with OpenAI's Responses API: the model gets two tools instead of all, and writes TypeScript that calls the tools.
// Shows the types that the code is checked against, a task that one run does, and what the run called.
//
// Run: OPENAI_API_KEY=… node code-mode.ts "Which customer spent most in May?"
// OPENAI_BASE_URL and OPENAI_MODEL select another server and model. Checking types needs `npm install typescript@7`.
import { createGlovebox } from "glovebox";
import { AgentLoop } from "glovebox/agent";
import { createCodeMode } from "glovebox/code-mode";
import { openaiResponses } from "glovebox/openai";
import OpenAI from "openai";

await using glovebox = await createGlovebox();
const orderSchema = {
  type: "object",
  properties: { customer: { type: "string" }, total: { type: "number" } },
  required: ["customer", "total"],
} as const;
await glovebox.addTool({
  name: "list_orders",
  source: `const orders = { "2026-05": [["Ada", 40], ["Bob", 25], ["Ada", 12]] };
    export default ({ month }) => (orders[month] ?? []).map(([customer, total]) => ({ customer, total }));`,
  overrides: {
    description: "Lists the orders of a month",
    inputSchema: {
      type: "object",
      properties: { month: { type: "string", description: "As 2026-05" } },
      required: ["month"],
    },
    outputSchema: { type: "array", items: orderSchema },
  },
});

// Three lines: the two tools take the place of the Glovebox.
await using codeMode = createCodeMode(glovebox);
const model = openaiResponses(new OpenAI(), { model: process.env.OPENAI_MODEL ?? "gpt-5.1" });
const loop = new AgentLoop({ model, router: codeMode.router });

const question = process.argv[2] ?? "Which customer spent most in May 2026?";
for await (const event of loop.stream({ messages: [{ role: "user", content: question }] })) {
  if (event.type === "tool-call") console.log(`> ${event.call.toolName} ${event.call.argumentsText}`);
  if (event.type === "tool-result" && event.result.success) console.log(`< ${JSON.stringify(event.result.output)}`);
  if (event.type === "outcome") console.log(event.text);
}
