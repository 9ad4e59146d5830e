// A new process that imports Glovebox, opens one, adds a tool, makes one call, and reports how long that took.
import type * as GloveboxModule from "../../src/host/index.ts";

const [entry = "", directory = "", path = "", input = "{}"] = process.argv.slice(2);
const began = performance.now();
const { createGlovebox } = (await import(entry)) as typeof GloveboxModule;
const opened = performance.now();
const glovebox = await createGlovebox({ tenancy: "multi", cache: { directory } });
await glovebox.addTool({ path, name: "tool" }, { tenantId: "acme" });
const result = await glovebox.execute(
  { id: "c", toolName: "tool", arguments: JSON.parse(input) as unknown },
  { tenantId: "acme" },
);
const answered = performance.now();
console.log(
  JSON.stringify({
    success: result.success,
    importMs: opened - began,
    fromCreateMs: answered - opened,
    // The clock begins with the process.
    fromStartMs: answered,
  }),
);
await glovebox.close();
