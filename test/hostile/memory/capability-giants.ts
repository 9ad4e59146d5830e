// Inputs of megabytes, as many as may be pending, and answers of the same size use memory of the guest, the worker process and the host.
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testAttack } from "../support.ts";

const echo = defineCapability({ name: "echo", inputSchema: {}, outputSchema: {}, handler: (input) => input });

testAttack("capability inputs of megabytes", {
  source: `export default async (_, ctx) => {
    const text = "x".repeat(4e6);
    for (;;) await Promise.allSettled(Array.from({ length: 50 }, (_, n) => ctx.echo(n + text)));
  };`,
  capabilities: [echo],
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
