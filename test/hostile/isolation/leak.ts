// A warm isolate grows from call to call. The call that exceeds the limit fails, and the next has a new isolate.
import { expect } from "vitest";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

testPlay("a leak over many calls", {
  isolateLifetime: "tool",
  source: `const all = [];
export default () => { for (let n = 0; n < 100; n += 1) all.push(new Array(1e4).fill(1.5)); return all.length; };`,
  play: async ({ run }) => {
    const codes: string[] = [];
    for (let n = 0; n < 30; n += 1) codes.push(codeOf(await run()));
    return codes;
  },
  judge: (codes) => {
    // An isolate that exceeds the limit between two calls fails neither, and is not reused.
    for (const [at, code] of codes.entries()) {
      expect(["ok", "MEMORY_LIMIT"]).toContain(code);
      if (code !== "ok") expect(codes[at + 1] ?? "ok").toBe("ok");
    }
  },
});
