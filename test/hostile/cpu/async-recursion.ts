// Asynchronous calls that each await one more. V8 keeps and walks their asynchronous stacks.
import { testAttack } from "../support.ts";

testAttack("async frames without end, each throwing through all", {
  source: `const deeper = async (n) => { await null; if (n === 0) throw new Error('end'); try { await deeper(n - 1); } catch (error) { throw new Error('again', { cause: error }); } };
export default async () => { for (;;) await deeper(2_000).catch(() => {}); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
