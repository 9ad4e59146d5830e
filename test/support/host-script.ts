// A separate host process, to be killed: starts calls that never end by themselves, and prints the process ids of its workers.
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";

const limits = { timeoutMs: 300_000, cpuMs: 300_000 };
const glovebox = await createGlovebox({
  cache: false,
  tenancy: "multi",
  limits,
  workers: { max: 4, warmProcesses: 1 },
});
await glovebox.addTool(
  { name: "loop", source: 'export default () => { console.log("begun"); for (;;); }' },
  { scope: "global" },
);
await glovebox.addTool(
  { name: "wait", source: 'export default () => { console.log("begun"); return new Promise(() => {}); }' },
  { scope: "global" },
);

const begun = ["loop", "wait"].map(
  (toolName) =>
    new Promise<void>((onLog) => {
      void glovebox.execute({ id: "c1", toolName }, { tenantId: toolName, timeoutMs: 300_000, onLog: () => onLog() });
    }),
);
await Promise.all(begun);
process.stdout.write(`${JSON.stringify(glovebox.workerPids)}\n`);
