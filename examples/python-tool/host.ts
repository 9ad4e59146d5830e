// A tool in Python: a folder with tool.py and a module that it imports, run by CPython inside the sandbox.
// Shows its schema, its prints as log lines, the key-value store, and an exception with the author's own lines.
//
// Run: node python-tool/host.ts
import { createGlovebox } from "glovebox";

await using glovebox = await createGlovebox({ kv: "memory" });
// The first Python tool loads the interpreter; a process with one is then kept ready for the next call.
const definition = await glovebox.addTool({ name: "summarize", path: import.meta.dirname }, { grant: ["kv"] });
console.log(`${definition.name}: ${definition.description}`);

const inputs = [
  { numbers: [2, 3, 5, 7, 11] },
  { numbers: [2, 3, 5, 7, 11, 1_000], ignore_outliers: true },
  { numbers: [42] },
  { numbers: "2, 3, 5" },
];
for (const [index, input] of inputs.entries()) {
  const result = await glovebox.execute({ id: `call-${index + 1}`, toolName: "summarize", arguments: input });
  for (const { message } of result.logs) console.log(`  log: ${message}`);
  if (result.success) console.log(JSON.stringify(result.output));
  else console.log(`${result.error.code}: ${result.error.message}`, result.error.stack ?? "");
}
