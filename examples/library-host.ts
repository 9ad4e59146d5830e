// A host in one file: adds two tools, calls them, and handles what can go wrong.
// Shows limits, a capability that is granted by name, and the fields of a failed result.
//
// Run: node library-host.ts
import { createGlovebox, defineCapability, type ToolResult } from "glovebox";
import { z } from "zod";

// The source of a tool is text: from an upload, a database or a model. Nothing in it runs in this process.
const quoteSource = `
  export const description = "Returns the price of an order";
  export const inputSchema = {
    type: "object",
    properties: { sku: { type: "string" }, count: { type: "integer", minimum: 1 } },
    required: ["sku", "count"],
  };
  export default async ({ sku, count }, ctx) => {
    const { price } = await ctx.lookUpPrice({ sku });
    if (price === null) throw new Error("No product has the SKU " + sku);
    console.log("price of", sku, "is", price);
    return { total: price * count };
  };
`;
const loopSource = "export default () => { while (true); };";

// A capability is the only way out of the sandbox: a function of this process with checked input and output.
const prices = new Map([["A1", 9.5]]);
const lookUpPrice = defineCapability({
  name: "lookUpPrice",
  inputSchema: z.object({ sku: z.string() }),
  outputSchema: z.object({ price: z.number().nullable() }),
  handler: ({ sku }) => ({ price: prices.get(sku) ?? null }),
});

// `await using` closes the Glovebox at the end of the file, and its worker processes with it.
await using glovebox = await createGlovebox({
  capabilities: [lookUpPrice],
  limits: { timeoutMs: 30_000, cpuMs: 500, memoryMiB: 64 },
});
await glovebox.addTool({ name: "quote", source: quoteSource }, { grant: ["lookUpPrice"] });
await glovebox.addTool({ name: "loop", source: loopSource });

function report(result: ToolResult): void {
  for (const { level, message } of result.logs) console.log(`  ${level}: ${message}`);
  if (result.success) {
    console.log(`${result.toolName} returned ${JSON.stringify(result.output)}`);
    return;
  }
  // `message` is for developers, `userMessage` is safe to show to anyone.
  const { code, message, userMessage, recoverable } = result.error;
  console.log(`${result.toolName} failed with ${code}: ${message}`);
  console.log(`  for users: ${userMessage}${recoverable ? " (another attempt may succeed)" : ""}`);
}

// execute() never throws: each call has one result.
report(await glovebox.execute({ id: "call-1", toolName: "quote", arguments: { sku: "A1", count: 4 } }));
report(await glovebox.execute({ id: "call-2", toolName: "quote", arguments: { sku: "A1", count: "four" } }));
report(await glovebox.execute({ id: "call-3", toolName: "quote", arguments: { sku: "B2", count: 1 } }));
report(await glovebox.execute({ id: "call-4", toolName: "loop" }));
report(await glovebox.execute({ id: "call-5", toolName: "missing" }));
