// A later call rethrows a denial that an earlier call received from the host. The later call was not denied anything.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

const deny = defineCapability({
  name: "deny",
  inputSchema: {},
  outputSchema: {},
  handler: () => {
    throw new ToolError("CAPABILITY_DENIED", "Not for you");
  },
});

testPlay("a denial thrown again in a later call", {
  isolateLifetime: "tool",
  capabilities: [deny],
  source: `let kept;
export default async (_, ctx) => { if (kept !== undefined) throw kept; await ctx.deny(1).catch((error) => { kept = error; }); throw kept; };`,
  play: async ({ run }) => [codeOf(await run()), codeOf(await run())],
  judge: (codes) => expect(codes).toEqual(["CAPABILITY_DENIED", "TOOL_FAILED"]),
});
