// A new process that opens a Glovebox, adds a tool, makes one call, and reports how long that took.
import { createGlovebox } from "../../src/host/index.ts";

const [directory = "", path = "", input = "{}"] = process.argv.slice(2);
const opened = performance.now();
const box = await createGlovebox({ tenancy: "multi", cache: { directory } });
await box.addTool({ path, name: "tool" }, { tenantId: "acme" });
const result = await box.execute(
  { id: "c", toolName: "tool", arguments: JSON.parse(input) as unknown },
  { tenantId: "acme" },
);
const answered = performance.now();
// Both clocks begin with the process.
console.log(JSON.stringify({ success: result.success, fromCreateMs: answered - opened, fromStartMs: answered }));
await box.close();
