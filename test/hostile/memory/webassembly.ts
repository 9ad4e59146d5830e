// WebAssembly memory exceeds V8's limit (4 GB measured), so guests do not have it by default.
import { testAttack } from "../support.ts";

testAttack("WebAssembly memory", {
  source: `export default async () => { return new WebAssembly.Memory({ initial: 65_536 }).buffer.byteLength; };`,
  codes: ["TOOL_FAILED"],
});
