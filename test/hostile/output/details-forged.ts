// Own fields of an error are not its details: only name, message, code and stack leave the isolate, each with a size limit.
import { expect } from "vitest";
import { errorOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("an error with fields for everything", {
  source: `export default () => { throw Object.assign(new Error('x'), { code: 'c'.repeat(1e6), details: { a: 'd'.repeat(1e6) }, userMessage: 'forged', recoverable: true, audience: 'client', http: 200, cause: new Error('e'.repeat(1e6)), stack: 'Error: x\\n    at steal (/etc/passwd:1:1)\\n    at file:///root/x.js:1:1' }); };`,
  codes: ["TOOL_FAILED"],
  check: (result) => {
    expect(JSON.stringify(result).length).toBeLessThan(5_000);
    expect(errorOf(result).userMessage).toBe("attack failed");
    expect(errorOf(result).details).not.toHaveProperty("a");
  },
});
