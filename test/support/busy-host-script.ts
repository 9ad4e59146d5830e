// A separate host process, to be killed under load: calls of several tenants that never end, short calls, and continuous builds.
// Prints one line when all of them have started. Run by test/chaos/host-death.test.ts.
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";

const limits = { timeoutMs: 300_000, cpuMs: 300_000 };
const glovebox = await createGlovebox({
  cache: false,
  tenancy: "multi",
  limits,
  workers: { max: 6, warmProcesses: 1 },
});
await glovebox.addTool(
  { name: "loop", source: 'export default () => { console.log("begun"); for (;;); }' },
  { scope: "global" },
);
await glovebox.addTool({ name: "quick", source: "export default () => 1" }, { scope: "global" });

const loops = ["a", "b"].map(
  (tenantId) =>
    new Promise<void>((onLog) => {
      void glovebox.execute({ id: "c1", toolName: "loop" }, { tenantId, timeoutMs: 300_000, onLog: () => onLog() });
    }),
);

async function callForever(tenantId: string): Promise<never> {
  for (;;) await glovebox.execute({ id: "c2", toolName: "quick" }, { tenantId });
}

/**
 * Each source is new, takes its time to be built, and fails at its end, so that nothing but the bundler is kept busy: nearly always
 * there is a child of it.
 */
async function buildForever(): Promise<never> {
  for (let n = 0; ; n += 1) {
    const lines = Array.from({ length: 20_000 }, (_, line) => `export const x${line} = (a) => a + ${n};`);
    const source = `${lines.join("\n")}\nexport default () => ${n}; import "not-in-any-store";`;
    await glovebox.inspectTool({ source }, { scope: "global" }).catch(() => {});
  }
}

for (const tenantId of ["c", "d"]) void callForever(tenantId);
void buildForever();
await Promise.all(loops);
process.stdout.write("under way\n");
