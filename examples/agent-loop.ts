// An agent with the `openai` package: the model calls sandboxed tools until it has an answer.
// Shows the loop's events, a call that waits for a person's approval, and how a paused run is resumed.
//
// Run: OPENAI_API_KEY=… node agent-loop.ts "Please refund order 1007"
// Any server that speaks OpenAI's Responses API will do: set OPENAI_BASE_URL, and OPENAI_MODEL for its model.
import { randomBytes } from "node:crypto";
import { createGlovebox } from "glovebox";
import {
  type AgentEvent,
  AgentLoop,
  type AgentOutcome,
  type ApprovalRequest,
  createMemoryIdempotencyStore,
} from "glovebox/agent";
import { openaiResponses } from "glovebox/openai";
import OpenAI from "openai";

const orderSchema = `export const inputSchema = {
  type: "object", properties: { orderId: { type: "integer" } }, required: ["orderId"], additionalProperties: false,
};`;
const findOrderSource = `${orderSchema}
  const orders = new Map([[1007, { item: "lamp", price: 40 }]]);
  export default ({ orderId }) => {
    const order = orders.get(orderId);
    if (order === undefined) throw new Error("There is no order " + orderId);
    return order;
  };
`;
const refundSource = `${orderSchema}
  export default ({ orderId }) => ({ refunded: orderId });
`;

await using glovebox = await createGlovebox({ limits: { timeoutMs: 30_000 } });
await glovebox.addTool({
  name: "find_order",
  source: findOrderSource,
  // The host states what it knows about the tool, so that the source cannot claim otherwise.
  overrides: { description: "Finds an order by its number", annotations: { readOnlyHint: true } },
});
await glovebox.addTool({
  name: "refund",
  source: refundSource,
  overrides: { description: "Refunds an order", annotations: { destructiveHint: true } },
});

const loop = new AgentLoop({
  router: glovebox,
  model: openaiResponses(new OpenAI(), { model: process.env.OPENAI_MODEL ?? "gpt-5.1" }),
  maxSteps: 8,
  needsApproval: "destructive",
  // Paused states are signed with it. A program that resumes in another process reads it from its secrets.
  signingKey: randomBytes(32),
});

function show(event: AgentEvent): void {
  if (event.type === "text-delta") process.stdout.write(event.text);
  if (event.type === "tool-call") console.log(`> ${event.call.toolName} ${event.call.argumentsText}`);
  if (event.type === "tool-result") {
    const { result } = event;
    console.log(
      result.success ? `< ${JSON.stringify(result.output)}` : `< ${result.error.code}: ${result.error.message}`,
    );
  }
}

async function follow(events: AsyncIterable<AgentEvent>): Promise<AgentOutcome> {
  for await (const event of events) {
    show(event);
    if (event.type === "outcome") return event;
  }
  throw new Error("A stream always ends with its outcome");
}

/** Stands for the dialog of an application, which shows the call to a person. */
function decide({ call }: ApprovalRequest): { approved: boolean; reason?: string } {
  const { orderId } = call.arguments as { orderId: number };
  return orderId === 1007 ? { approved: true } : { approved: false, reason: "Only order 1007 may be refunded" };
}

const content = process.argv[2] ?? "Please refund order 1007";
const idempotencyStore = createMemoryIdempotencyStore();
let outcome = await follow(loop.stream({ messages: [{ role: "user", content }] }));
while (outcome.status === "paused") {
  // The state is JSON: an application stores it and resumes the run when the decision is there.
  const { state, approvalRequests } = outcome;
  const approvals = Object.fromEntries(approvalRequests.map((request) => [request.call.id, decide(request)]));
  console.log(`Decisions: ${JSON.stringify(approvals)}`);
  outcome = await follow(loop.stream({ state, approvals, idempotencyStore }));
}
console.log(`\nThe run ${outcome.status} after ${outcome.usage.outputTokens} output tokens`);
if (outcome.status === "failed") console.error(`${outcome.error.code}: ${outcome.error.message}`);
