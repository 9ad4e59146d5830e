// Granted WebAssembly, a tool can reserve memory past V8's limit; what it does not touch, nobody else goes without.
import { testAttack } from "../support.ts";

testAttack("memory.grow in a loop", {
  source: `export default () => {
    const memories = [];
    for (;;) try { const memory = new WebAssembly.Memory({ initial: 1 }); memories.push(memory); for (;;) memory.grow(64); } catch {}
  };`,
  features: ["webAssembly"],
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT"],
});
