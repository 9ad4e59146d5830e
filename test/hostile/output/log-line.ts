// A log line of 100 MB costs the host nothing.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a log line of 100 MB", {
  source: `export default async () => { console.log('x'.repeat(1e8)); return 1; };`,
  codes: ["ok", "MEMORY_LIMIT"],
  check: (result) => {
    expect(JSON.stringify(result.logs).length).toBeLessThan(300_000);
  },
});
