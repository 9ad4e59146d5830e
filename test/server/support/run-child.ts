// A process that starts or continues a durable run, and kills itself in the middle of a capability call: after the first effect, before its
// answer is stored; then while the second call is under way.
import * as z from "zod";
import { createGlovebox, createRuns, defineCapability } from "../../../src/host/index.ts";
import { SqliteRunStore } from "../../../src/host/runs/sqlite-run-store.ts";
import { openDatabase } from "../../../src/server/database/open-database.ts";
import { DatabaseRunStore } from "../../../src/server/runs/database-run-store.ts";

const { kind, dataDir, url, kill } = JSON.parse(process.argv[2] ?? "{}") as {
  readonly kind: string;
  readonly dataDir: string;
  readonly url?: string;
  readonly kill: string;
};

const database = kind === "file" ? undefined : await openDatabase({ dataDir, url, onError: console.error });
const store = database === undefined ? new SqliteRunStore({ path: dataDir }) : new DatabaseRunStore(database);
const effect = defineCapability({
  name: "effect",
  inputSchema: z.string(),
  outputSchema: z.string(),
  handler: async (name) => {
    // The effect itself is durable too: a journal of another run serves as its list.
    await store.append({ tenantId: "acme", id: "effects", fence: 1 }, [name]);
    if (name === "second" && kill === "second") process.kill(process.pid, "SIGKILL");
    return `${name} done`;
  },
});
await using glovebox = await createGlovebox({
  tenancy: "multi",
  cache: process.env.GLOVEBOX_TEST_CACHE === undefined ? false : { directory: process.env.GLOVEBOX_TEST_CACHE },
  kv: "memory",
  capabilities: [effect],
  workers: { warmProcesses: 0 },
  limits: { timeoutMs: 120_000 },
});
const source = `export const capabilities = { effect: true, waitFor: true };
  export default async (_, ctx) => {
    const outputs = [await ctx.effect("first")];
    await ctx.waitFor({ durationMs: 500 });
    for (const name of ["second", "third"]) outputs.push(await ctx.effect(name).catch((error) => error.code));
    return outputs;
  };`;
await glovebox.addTool({ name: "killed", source }, { tenantId: "acme", grant: ["effect", "waitFor"] });

const runs = createRuns(glovebox, { store, pollMs: 0, leaseMs: 100 });
if (kill === "first") {
  await runs.start({ tenantId: "acme", toolName: "killed", id: "killed" });
  // It waits: its process can end in any way.
  process.kill(process.pid, "SIGKILL");
}
for (;;) {
  await runs.poll();
  const run = await runs.get("killed", { tenantId: "acme" });
  if (run !== undefined && run.state !== "suspended" && run.state !== "running") {
    const output = run.result?.success === true ? run.result.output : run.result?.error;
    console.log(JSON.stringify({ state: run.state, output }));
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
}
await runs.close();
await database?.[Symbol.asyncDispose]();
