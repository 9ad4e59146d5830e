// Sandboxed tools in the OpenAI Agents SDK: an agent gets the tools of one tenant.
// Shows a tool for all tenants, a tool of one tenant, and what each agent can call.
//
// Run: OPENAI_API_KEY=… node openai-agents.ts "What does the discount make of 80 euros?"
// OPENAI_BASE_URL and OPENAI_MODEL select another server and model.
import { Agent, Runner } from "@openai/agents";
import { createGlovebox } from "glovebox";
import { toAgentsTools } from "glovebox/openai-agents";

const inputSchema = {
  type: "object",
  properties: { amount: { type: "number" } },
  required: ["amount"],
  additionalProperties: false,
} as const;

await using glovebox = await createGlovebox({ tenancy: "multi", limits: { timeoutMs: 30_000 } });
await glovebox.addTool(
  {
    name: "add_tax",
    source: "export default ({ amount }) => ({ total: Math.round(amount * 119) / 100 })",
    overrides: { description: "Adds the tax of 19 % to an amount", inputSchema },
  },
  { scope: "global" },
);
await glovebox.addTool(
  {
    name: "discount",
    source: "export default ({ amount }) => ({ total: Math.round(amount * 90) / 100 })",
    overrides: { description: "Takes off the customer's discount", inputSchema },
  },
  { tenantId: "acme" },
);

function createClerk(tenantId: string) {
  return new Agent({
    name: `Clerk of ${tenantId}`,
    instructions: "Answer questions about prices. Compute with the tools only.",
    model: process.env.OPENAI_MODEL ?? "gpt-5.1",
    // `context` applies to each call: here, every tool has ten seconds.
    tools: toAgentsTools(glovebox, { tenantId, context: { timeoutMs: 10_000 } }),
  });
}

for (const tenantId of ["acme", "globex"]) {
  const { name, tools } = createClerk(tenantId);
  console.log(`${name} has ${tools.map((tool) => tool.name).join(", ")}`);
}

const runner = new Runner({ tracingDisabled: true });
const question = process.argv[2] ?? "What does the discount make of 80 euros?";
const result = await runner.run(createClerk("acme"), question, { maxTurns: 5 });
for (const item of result.newItems) {
  if (item.type === "tool_call_item" && item.rawItem.type === "function_call") {
    console.log(`> ${item.rawItem.name} ${item.rawItem.arguments}`);
  }
  if (item.type === "tool_call_output_item") console.log(`< ${item.output}`);
}
console.log(result.finalOutput);
