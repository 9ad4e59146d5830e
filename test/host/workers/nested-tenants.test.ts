// Calls of several tenants that hold every process and wait for calls that need another one: they would wait for each other until their queue
// time is over.
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/index.ts";
import { makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";

const TENANTS = ["first", "second", "third"];
/** A tool of another language needs a process of its own. */
const OUTER = `
  export const capabilities = { gate: true, tools: ["inner"] };
  export default async (_, ctx) => { await ctx.gate(null); return 1 + await ctx.tools.inner(); };`;
/** Time in ms for the last call to begin. With the guard, it does not. */
const LAST_MS = 2_000;

test("a process is left for the calls that they wait for", async () => {
  let begun = 0;
  const gate = Promise.withResolvers<null>();
  const capability = defineCapability({
    name: "gate",
    inputSchema: z.null(),
    outputSchema: z.null(),
    handler: () => {
      begun += 1;
      return gate.promise;
    },
  });
  await using glovebox = await makeGlovebox({
    tenancy: "multi",
    cache: PYTHON_CACHE,
    capabilities: [capability],
    workers: { max: TENANTS.length },
  });
  await glovebox.addTool(
    { name: "inner", source: "def main(input):\n    return 0", language: "python" },
    { scope: "global" },
  );
  await glovebox.addTool({ name: "outer", source: OUTER }, { scope: "global", grant: ["gate", "tools"] });
  const calls = TENANTS.map((tenantId) => glovebox.execute({ id: "c", toolName: "outer" }, { tenantId }));
  await expect.poll(() => begun, { timeout: 100_000 }).toBeGreaterThanOrEqual(TENANTS.length - 1);
  for (let waited = 0; begun < TENANTS.length && waited < LAST_MS; waited += 50) await pause(50);
  gate.resolve(null);
  expect((await Promise.all(calls)).map(outputOf)).toEqual([1, 1, 1]);
});
