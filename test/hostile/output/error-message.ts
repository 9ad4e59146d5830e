// The message of an error is truncated in the isolate.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("an error message of 50 MB", {
  source: `export default async () => { throw new Error('x'.repeat(5e7)); };`,
  codes: ["TOOL_FAILED", "MEMORY_LIMIT"],
  check: (result) => {
    expect(JSON.stringify(result).length).toBeLessThan(60_000);
  },
});
