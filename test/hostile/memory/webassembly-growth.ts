// With WebAssembly granted, a tool can reserve memory beyond V8's limit. Reserved memory that is not used takes none from other tenants.
import { testAttack } from "../support.ts";

testAttack("memory.grow in a loop", {
  source: `export default () => {
    const memories = [];
    for (;;) try { const memory = new WebAssembly.Memory({ initial: 1 }); memories.push(memory); for (;;) memory.grow(64); } catch {}
  };`,
  features: ["webAssembly"],
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT"],
});
