// A host that is shut down while calls run. Prints the ids of its workers, then each result, as lines of JSON. Run by shutdown.test.ts.
import { writeSync } from "node:fs";
import { defineCapability } from "../../src/host/capabilities/capability.ts";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";

const [drainMs = "1000", mode = "alone"] = process.argv.slice(2);
const shutdown = { signals: ["SIGTERM"], drainMs: Number(drainMs) } as const;
/** Opens when the host has begun to drain: the call that waits for it can end only then. */
const opened = Promise.withResolvers<null>();
const gate = defineCapability({ name: "gate", inputSchema: {}, outputSchema: {}, handler: () => opened.promise });
const glovebox = await createGlovebox({
  cache: false,
  capabilities: [gate],
  tenancy: "multi",
  shutdown,
  workers: { warmProcesses: 0 },
  // Nothing but the shutdown ends a call.
  limits: { timeoutMs: 300_000, cpuMs: 300_000 },
});
const say = (value: unknown): number => writeSync(1, `${JSON.stringify(value)}\n`);
const source = `export default ({ how }, ctx) => {
  if (how === "loop") for (;;);
  return how === "gate" ? ctx.gate() : how === "never" ? new Promise(() => {}) : 1;
};`;
await glovebox.addTool({ name: "tool", source }, { scope: "global", grant: ["gate"] });

async function call(id: string, how: string): Promise<string> {
  const context = { tenantId: how === "loop" ? "looping" : "acme", timeoutMs: 300_000 };
  const result = await glovebox.execute({ id, toolName: "tool", arguments: { how } }, context);
  return result.success ? "ok" : result.error.code;
}
const tell = async (id: string, how: string): Promise<void> => {
  say({ id, code: await call(id, how) });
};

if (mode === "listener") process.on("SIGTERM", () => say({ id: "heard" }));
const calls = [tell("soon", "gate"), tell("never", "never"), tell("loop", "loop")];
await call("first", "once");
say({ pids: glovebox.workerPids });
// Calls keep arriving. The first rejected call is printed.
let isDraining = false;
const late = setInterval(async () => {
  const code = await call("late", "once");
  if (code === "ok" || isDraining) return;
  isDraining = true;
  clearInterval(late);
  say({ id: "late", code });
  opened.resolve(null);
}, 20);
await Promise.all(calls);
if (mode === "listener") {
  await glovebox.close();
  say({ id: "closed" });
  process.exit(7);
}
