// A host that runs out of file descriptors and regains them. Prints the code of a call in each state. Run by worker-places.test.ts.
import { closeSync, openSync } from "node:fs";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";

const limits = { timeoutMs: 120_000 };
const glovebox = await createGlovebox({ cache: false, tenancy: "multi", limits, workers: { warmProcesses: 0 } });
await glovebox.addTool({ name: "one", source: "export default () => 1" }, { scope: "global" });
const codeOfCall = async (tenantId: string, timeoutMs?: number): Promise<string> => {
  const result = await glovebox.execute({ id: "c", toolName: "one" }, { tenantId, timeoutMs });
  return result.success ? "ok" : result.error.code;
};
// The glovebox's first process is taken: the next owner needs a new one.
await codeOfCall("before");
const open: number[] = [];
try {
  for (;;) open.push(openSync("/dev/null", "r"));
} catch {
  // There are none left.
}
const exhausted = await codeOfCall("first");
for (const descriptor of open) closeSync(descriptor);
console.log(exhausted);
console.log(await codeOfCall("second"));
await glovebox.close();
