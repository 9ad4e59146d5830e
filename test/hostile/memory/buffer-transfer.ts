// transfer() enlarges a buffer without the constructor that was removed.
import { testAttack } from "../support.ts";

testAttack("buffers that grow by transfer", {
  source: `export default () => { let buffer = new ArrayBuffer(2 ** 20); const all = []; for (;;) { buffer = buffer.transfer(buffer.byteLength * 2); new Uint8Array(buffer).fill(1); all.push(buffer.slice(0)); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
