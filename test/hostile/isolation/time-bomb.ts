// A top level that behaves during the extraction of the definition and attacks later. Each attack ends only its own call.
import { setTimeout as pause } from "node:timers/promises";
import { expect, vi } from "vitest";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

/** By then the definition has been extracted. */
const DUE_MS = 30_000;
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
    await pause(due - Date.now());
    const codesAfter = async (): Promise<readonly string[]> => {
      const codes: string[] = [];
      for (let n = 0; n < 5; n += 1) codes.push(codeOf(await run({}, { timeoutMs: 200 })));
      return codes;
    };
    // A warm isolate that was created before the change is still there for a while.
    const after = await vi.waitFor(async () => {
      const codes = await codesAfter();
      expect(codes).not.toContain("ok");
      return codes;
    });
    return { before, after };
  },
  judge: ({ before, after }) => {
    expect(before).toBe("ok");
    for (const code of after) expect(["TOOL_TIMEOUT", "TOOL_FAILED", "BUNDLE_FAILED"]).toContain(code);
  },
});
