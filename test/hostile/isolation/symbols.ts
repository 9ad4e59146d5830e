// Each isolate has its own registered symbols, interned strings and cached templates. Properties on them are invisible to other isolates.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("the symbol registry as a channel between isolates", {
  isolateLifetime: "tool",
  placement: "shared",
  source: `const letter = (strings) => strings;
export default ({ say }) => { const box = Symbol.for('box'); const place = letter(["here"]); const before = [Symbol.prototype[box], String.prototype[box], Object.getPrototypeOf(place)[box], Function.prototype[box]].filter(Boolean); for (const at of [Symbol.prototype, String.prototype, Array.prototype, Function.prototype]) at[box] = say; return before; };`,
  play: async ({ call }) => [
    await call({ say: "a" }, { tenantId: "a" }),
    await call({ say: "b" }, { tenantId: "b" }),
    await call({ say: "c" }, { tenantId: "c" }),
  ],
  judge: (found) => expect(found).toEqual([[], [], []]),
});
