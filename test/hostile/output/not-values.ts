// Values that cannot be serialized: functions, generators, iterators, BigInts deep inside, cycles by a getter.
import { expect } from "vitest";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "../isolation/support.ts";

testPlay("outputs that cannot be serialized as JSON", {
  isolateLifetime: "tool",
  source: `
    const cycle = { get self() { return cycle; } };
    const revoked = Proxy.revocable([], {}); revoked.revoke();
    const values = [() => () => 1, () => Symbol("s"), () => 1n, () => ({ deep: [{ n: 1n }] }), () => (function* () { yield 1; })(), () => (async function* () { yield 1n; })(), () => cycle, () => revoked.proxy, () => ({ toJSON: () => undefined }), () => ({ get a() { throw null; } }), () => Object(1n), () => ({ toJSON() { return this; }, x: 1n })];
    export default ({ n }) => (n >= values.length ? "none left" : values[n]());`,
  play: async ({ run }) => {
    const codes: string[] = [];
    while (codes.at(-1) !== "ok") codes.push(codeOf(await run({ n: codes.length })));
    return codes;
  },
  judge: (codes) => {
    expect(codes.at(-1)).toBe("ok");
    expect(codes).toHaveLength(13);
    // Awaiting a revoked proxy throws its own error.
    expect(new Set(codes.slice(0, -1))).toEqual(new Set(["OUTPUT_INVALID", "TOOL_FAILED"]));
  },
});
