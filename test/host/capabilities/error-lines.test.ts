// The error of a capability names the line of the tool that waited for it, like an error that the tool throws.
import { expect, onTestFinished, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { errorOf, makeGlovebox } from "../../support/host-zone.ts";

const SOURCE = `export const capabilities = { look: true, kv: true, fetch: true, tools: true };
const HOW = {
  capability: async (ctx) => await ctx.look({}),
  member: async (ctx) => await ctx.kv.get(7),
  tool: async (ctx) => await ctx.tools.missing({}),
  fetch: async () => await fetch("http://denied.example/"),
  list: async (ctx) => await Promise.all([ctx.look({}), ctx.look({})]),
  reaction: async (ctx) => await ctx.look({}).then((answer) => answer.field),
};
export default async ({ how }, ctx) => {
  const output = await HOW[how](ctx);
  return output;
};`;

test("an uncaught error of a capability has the lines that waited for it", async () => {
  const look = defineCapability({
    name: "look",
    inputSchema: z.unknown(),
    outputSchema: z.unknown(),
    handler: () => Promise.reject(new Error("secret of the host")),
  });
  const glovebox = await makeGlovebox({ kv: "memory", capabilities: [look], egress: { allow: ["api.example"] } });
  onTestFinished(() => glovebox.close());
  await glovebox.addTool({ name: "waits", source: SOURCE }, { grant: ["look", "kv", "fetch", "tools"] });
  for (const [index, how] of ["capability", "member", "tool", "fetch", "list", "reaction"].entries()) {
    const error = errorOf(await glovebox.execute({ id: "c", toolName: "waits", arguments: { how } }));
    expect(error.details).toMatchObject({ errorName: "CapabilityError", file: "tool.ts", line: index + 3 });
    expect(error.stack).toMatch(
      new RegExp(`^    at async .*tool\\.ts:${index + 3}:\\d+\\)?\n.*tool\\.ts:11:\\d+`, "m"),
    );
    expect(error.stack).not.toContain("secret of the host");
  }
});
