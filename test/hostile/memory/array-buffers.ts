// Array buffers lie outside V8's heap; isolated-vm counts them.
import { testAttack } from "../support.ts";

testAttack("array buffers, kept", {
  source: `export default async () => { const all = []; for (;;) all.push(new Uint8Array(16 * 2 ** 20).fill(1)); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
});
