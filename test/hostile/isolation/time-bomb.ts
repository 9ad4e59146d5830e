// A top level that behaves during the extraction of the definition and attacks later. Each attack ends only its own call.
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

/** By then the definition has been extracted. */
const DUE_MS = 20_000;
let due = 0;

testPlay("a top level that changes after the definition was extracted", {
  get source() {
    due = Date.now() + DUE_MS;
    return `const way = Date.now() < ${due} ? 0 : 1 + Math.floor(Math.random() * 3);
if (way === 1) for (;;);
if (way === 2) throw new Error('turned');
export default way === 3 ? { description: 'turned' } : () => 'fine';`;
  },
  play: async ({ run }) => {
    const before = codeOf(await run());
    // A warm isolate that was created before the change has also been replaced by then.
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
