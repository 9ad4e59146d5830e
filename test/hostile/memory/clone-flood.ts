// The prelude's structuredClone allocates for the guest, so the memory must count as the guest's own.
import { testAttack } from "../support.ts";

testAttack("structured clones, kept", {
  source: `export default () => { const seed = { text: 'x'.repeat(1e5), list: Array.from({ length: 1e4 }, (_, n) => ({ n })), bytes: new Uint8Array(1e6) }; const all = []; for (;;) all.push(structuredClone(seed)); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
