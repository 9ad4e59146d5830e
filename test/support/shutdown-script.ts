// A host with calls in it that is told to end. Prints its workers' numbers, then each result, as lines of JSON. Run by shutdown.test.ts.
import { writeSync } from "node:fs";
import { createGlovebox } from "../../src/host/runtime.ts";

const [drainMs = "1000", mode = "alone"] = process.argv.slice(2);
const shutdown = { signals: ["SIGTERM"], drainMs: Number(drainMs) } as const;
const box = await createGlovebox({
  cache: false,
  tenancy: "multi",
  shutdown,
  workers: { spares: 0 },
});
const say = (value: unknown): number => writeSync(1, `${JSON.stringify(value)}\n`);
await box.addTool(
  { name: "wait", source: "export default ({ ms }) => new Promise((done) => setTimeout(done, ms, ms))" },
  { scope: "global" },
);
await box.addTool({ name: "loop", source: "export default () => { for (;;); }" }, { scope: "global" });

async function call(id: string, toolName: string, ms: number): Promise<string> {
  const result = await box.execute({ id, toolName, arguments: { ms } }, { tenantId: toolName, timeoutMs: 60_000 });
  return result.success ? "ok" : result.error.code;
}
const tell = async (id: string, toolName: string, ms: number): Promise<void> => {
  say({ id, code: await call(id, toolName, ms) });
};

if (mode === "listener") process.on("SIGTERM", () => say({ id: "heard" }));
const calls = [tell("soon", "wait", 700), tell("never", "wait", 50_000), tell("loop", "loop", 0)];
await call("first", "wait", 1);
say({ pids: box.workerPids });
// Calls go on coming: the first that is refused is told.
const late = setInterval(async () => {
  const code = await call("late", "wait", 1);
  if (code === "ok") return;
  clearInterval(late);
  say({ id: "late", code });
}, 20);
await Promise.all(calls);
if (mode === "listener") {
  await box.close();
  say({ id: "closed" });
  process.exit(7);
}
