// A top level that behaves while it is learned, and not afterwards: each way to misbehave ends its own call only.
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

/** By then it has been learned. */
const DUE_MS = 20_000;
let due = 0;

testPlay("a top level that turns after it was learned", {
  get source() {
    due = Date.now() + DUE_MS;
    return `const way = Date.now() < ${due} ? 0 : 1 + Math.floor(Math.random() * 3);
if (way === 1) for (;;);
if (way === 2) throw new Error('turned');
export default way === 3 ? { description: 'turned' } : () => 'fine';`;
  },
  play: async ({ run }) => {
    const before = codeOf(await run());
    // An isolate that was made ahead in better days is gone by then, too.
    await pause(Math.max(5_000, due - Date.now()));
    const after: string[] = [];
    for (let n = 0; n < 5; n += 1) after.push(codeOf(await run({}, { timeoutMs: 200 })));
    return { before, after };
  },
  judge: ({ before, after }) => {
    expect(before).toBe("ok");
    for (const code of after) expect(["TOOL_TIMEOUT", "TOOL_FAILED", "BUNDLE_FAILED"]).toContain(code);
  },
});
