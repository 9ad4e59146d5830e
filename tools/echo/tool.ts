// Returns what it was given: the smallest useful tool, and the first thing to run against a new host.
import { defineTool } from "glovebox/tool";
import * as z from "zod";

export default defineTool({
  name: "echo",
  description:
    "Returns the parameters it is called with, unchanged, together with metadata about the call. " +
    "Use it to check that tools can be reached and that arguments arrive as sent.",
  inputSchema: z.looseObject({}).describe("Any JSON object; every member is returned as it is"),
  outputSchema: z.object({
    parameters: z.record(z.string(), z.unknown()).describe("The parameters exactly as they arrived"),
    metadata: z.object({
      callId: z.string().describe("Id of this call, as the caller gave it"),
      tenantId: z.string().describe("Tenant that the call ran for"),
      receivedAt: z.iso.datetime().describe("When the tool received the call, in UTC"),
      parameterNames: z.array(z.string()).describe("Names of the top-level parameters, sorted"),
      parameterCount: z.int().nonnegative().describe("How many top-level parameters arrived"),
      parameterCharacters: z.int().positive().describe("Length of the parameters as compact JSON text"),
    }),
  }),
  annotations: { title: "Echo", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  execute(parameters, ctx) {
    const parameterNames = Object.keys(parameters).sort();
    return {
      parameters,
      metadata: {
        callId: ctx.callId,
        tenantId: ctx.tenantId,
        receivedAt: new Date().toISOString(),
        parameterNames,
        parameterCount: parameterNames.length,
        parameterCharacters: JSON.stringify(parameters).length,
      },
    };
  },
});
