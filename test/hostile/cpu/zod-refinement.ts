// A zod refinement is the author's code: it runs in the isolate, never on the host.
import { testAttack } from "../support.ts";

testAttack("a zod refinement that loops", {
  source: `import { z } from 'zod';
export const inputSchema = z.object({}).refine(() => { for (;;); });
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
});
