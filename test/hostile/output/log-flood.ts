// ctx.log goes through the host. A flood must not end the process.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a flood of ctx.log", {
  source: `export default (_, ctx) => { for (let n = 0; n < 1e5; n += 1) ctx.log('line', { n }).catch(() => {}); return 1; };`,
  codes: ["ok", "TOOL_TIMEOUT", "MEMORY_LIMIT"],
  check: (result) => {
    expect(result.logs.length).toBeLessThanOrEqual(1_000);
  },
});
