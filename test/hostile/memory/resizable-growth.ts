// With resizable buffers granted, a tool can reserve memory beyond V8's limit.
import { testAttack } from "../support.ts";

testAttack("resize() in a loop", {
  source: `export default () => {
    const buffers = [];
    for (;;) try { const buffer = new ArrayBuffer(1, { maxByteLength: 2 ** 28 }); buffers.push(buffer); for (let size = 1; size <= 2 ** 28; size *= 2) buffer.resize(size); } catch {}
  };`,
  features: ["resizableBuffers"],
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT"],
});
