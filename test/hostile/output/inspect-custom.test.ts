// vm2 was left through nodejs.util.inspect.custom: the logger called the guest's function with functions of the host.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("a custom inspector", {
  source: `export default () => { const got = []; const custom = Symbol.for('nodejs.util.inspect.custom'); console.log({ [custom](...args) { got.push(...args.map((arg) => typeof arg)); return this; } }); return got.filter((type) => type === 'function').length; };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe(0),
});
