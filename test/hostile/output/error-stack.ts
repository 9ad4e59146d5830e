// The stack and the name of an error are truncated in the isolate.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("an error stack of 50 MB", {
  source: `export default async () => { throw Object.assign(new Error('x'), { stack: 'at tool (glovebox:///tool.js:1:1)\\n'.repeat(1e6), name: 'N'.repeat(1e7) }); };`,
  codes: ["TOOL_FAILED"],
  check: (result) => {
    expect(JSON.stringify(result).length).toBeLessThan(60_000);
  },
});
