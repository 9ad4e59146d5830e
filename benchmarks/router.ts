// What does the host's own part of a call cost? The bars are the issue's: look-up and validation under 1 ms, the router under 5 ms.
import * as z from "zod";
import { type JsonSchema, ToolRouter } from "../src/host/index.ts";
import { compileSchema } from "../src/host/json-schema/compile-schema.ts";
import { SchemaThread } from "../src/host/json-schema/worker/schema-thread.ts";
import { type ValidateOptions, validateCall } from "../src/host/pipeline/validate.ts";
import { measure } from "./support/measure.ts";
import { expectSuccess } from "./support/tools.ts";

const Order = z.object({
  id: z.uuid(),
  email: z.email(),
  lines: z.array(z.object({ sku: z.string().min(1), quantity: z.int().min(1), note: z.string().optional() })).max(100),
});
const inputSchema = z.toJSONSchema(Order) as unknown as JsonSchema;
const order = {
  id: "0190c0de-0000-7000-8000-000000000000",
  email: "ada@example.com",
  lines: Array.from({ length: 20 }, (_, index) => ({ sku: `SKU-${index}`, quantity: index + 1 })),
};

const router = new ToolRouter();
for (let index = 0; index < 1_000; index += 1) {
  router.register(`tool_${index}`, { description: "One of a thousand", inputSchema }, () => null);
}
const handler = (): null => null;
router.register("order", { description: "Takes an order", inputSchema }, handler);
const compiled = compileSchema(inputSchema);
const options: ValidateOptions = {
  bounds: { bytes: 1_000_000, depth: 100, values: 1_000_000 },
  thread: new SchemaThread(),
  startClock: () => {
    throw new Error("Expected small arguments");
  },
};

await measure({
  name: "router",
  question:
    "The host's part of a call, with 1,001 tools registered: the bare function, look-up and validation, the whole router",
  samples: 5_000,
  warmup: 1_000,
  subjects: {
    "bare function": async () => handler(),
    "schema only": async () => compiled.validate(order),
    "look-up and validation": async () =>
      validateCall(
        { callId: "c", toolName: "order", arguments: order },
        { tenantId: "acme" },
        router.registry,
        options,
      ),
    router: async () => expectSuccess(await router.execute({ id: "c", toolName: "order", arguments: order })),
  },
});
