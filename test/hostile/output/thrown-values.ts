// Guest code can throw any value: undefined, a symbol, a proxy, a revoked proxy, a function, a promise.
import { expect } from "vitest";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "../isolation/support.ts";

testPlay("thrown values that are not errors", {
  isolateLifetime: "tool",
  source: `
    const trap = () => { throw new Error("trap"); };
    const revoked = Proxy.revocable({}, {}); revoked.revoke();
    const values = [null, undefined, 0, "", 1n, Symbol("s"), () => 1, [], Object.create(null), new Proxy({}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap }), revoked.proxy, new Proxy(new Error("x"), {}), Promise.reject(new Error("inner")), { message: 1 }, { message: "m", stack: {} }, Object.freeze(new Error("frozen")), new Date(NaN), globalThis];
    export default ({ n }) => { if (n >= values.length) return "none left"; throw values[n]; };`,
  play: async ({ run }) => {
    const codes: string[] = [];
    while (codes.at(-1) !== "ok") codes.push(codeOf(await run({ n: codes.length })));
    return codes;
  },
  judge: (codes) => expect(codes).toEqual([...Array<string>(18).fill("TOOL_FAILED"), "ok"]),
});
