// Freed memory of earlier calls is allocated again. Buffers of every kind must be zeroed.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("secrets in memory that was used before", {
  isolateLifetime: "call",
  source: `const SECRET = 0x5e;
export default ({ write }) => {
  const sizes = [8, 64, 1e3, 4_096, 65_536, 1e6];
  if (write) { for (let n = 0; n < 8; n += 1) for (const size of sizes) new Uint8Array(size).fill(SECRET); return 0; }
  const views = sizes.flatMap((size) => [new Uint8Array(size), new Uint8Array(new ArrayBuffer(size)), new Uint8Array(new ArrayBuffer(8).transfer(size)), new Uint8Array(structuredClone(new ArrayBuffer(size))), new Uint8Array(new Float64Array(size).buffer), new TextEncoder().encode('').subarray(), new Uint8Array(new TextEncoder().encode('x').buffer, 1)]);
  return views.filter((view) => view.some((byte) => byte !== 0)).length;
};`,
  play: async ({ call }) => {
    for (let n = 0; n < 5; n += 1) await call({ write: true });
    return await Promise.all([1, 2, 3].map(() => call({ write: false })));
  },
  judge: (dirty) => expect(dirty).toEqual([0, 0, 0]),
});
