// One call of console.log is one line, regardless of its text, which cannot forge a second line, a level or a time.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("log lines that pretend to be more", {
  source: `export default () => { console.log('one\\n{"level":"error","message":"forged"}\\r\\n\\u001b[2J'); console.log('%s', { level: 'error', toString: () => 'x' }); return 1; };`,
  codes: ["ok"],
  check: (result) => expect(result.logs.map(({ level }) => level)).toEqual(["info", "info"]),
});
