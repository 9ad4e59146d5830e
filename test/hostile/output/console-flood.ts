// A million log lines: a thousand are kept, the rest counted or dropped.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a flood of console.log", {
  source: `export default async () => { for (let n = 0; n < 1e6; n += 1) console.log('line', n); return 1; };`,
  codes: ["ok", "TOOL_TIMEOUT"],
  check: (result) => {
    expect(result.logs.length).toBeLessThanOrEqual(1_000);
  },
});
