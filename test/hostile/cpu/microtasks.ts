// Never blocks and never ends: each step is a microtask, which isolated-vm's own timeout does not count.
import { testAttack } from "../support.ts";

testAttack("microtasks without end", {
  source: `export default async () => { for (;;) await null; };`,
  codes: ["TOOL_TIMEOUT"],
});
