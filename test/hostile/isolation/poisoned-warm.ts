// One call poisons a warm isolate. The next call may return a wrong output, but nothing outside that output may change.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

testPlay("a warm isolate poisoned for the next call", {
  isolateLifetime: "tool",
  source: `const fulfil = Promise.prototype.then;
export default ({ n }, ctx) => { if (n === 1) { for (const key of ['callId', 'tenantId', 'ok', 'code', 'value', 'outcome', 'type', 'seq', 'text', 'capabilityCode']) Object.defineProperty(Object.prototype, key, { __proto__: null, configurable: true, get: () => 'forged', set() {} }); Object.defineProperty(Object.prototype, 'get', { __proto__: null, configurable: true, value: () => 'forged' }); Promise.prototype.then = function (...args) { return fulfil.apply(this, args.map(() => () => 'forged')); }; JSON.stringify = () => '"forged"'; Array.prototype[Symbol.iterator] = function* () { yield 'forged'; }; Object.prototype.toJSON = undefined; } return 'honest ' + n; };`,
  play: async ({ glovebox, run }) => {
    const own = [await run({ n: 1 }), await run({ n: 2 })];
    return [
      ...own,
      await glovebox.execute({ id: "other", toolName: "attack", arguments: { n: 3 } }, { tenantId: "other" }),
    ];
  },
  judge: (results) => {
    expect(results.map(({ callId }) => callId)).toEqual(["evil", "evil", "other"]);
    expect(results.map(outputOf)).toEqual(["honest 1", "honest 2", "honest 3"]);
  },
});
