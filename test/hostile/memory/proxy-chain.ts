// Native recursion walks a chain of proxies. It must end in an error of the guest, not of the process.
import { testAttack } from "../support.ts";

testAttack("a chain of 200,000 proxies", {
  source: `export default () => { let chain = {}; for (let n = 0; n < 2e5; n += 1) chain = new Proxy(chain, {}); const tries = [() => chain.x, () => 'x' in chain, () => Object.keys(chain), () => Object.getPrototypeOf(chain), () => Array.isArray(chain), () => JSON.stringify(chain), () => Object.setPrototypeOf(chain, null), () => structuredClone(chain)]; return tries.map((run) => { try { run(); return 'done'; } catch (error) { return error.name; } }); };`,
  codes: ["ok", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
