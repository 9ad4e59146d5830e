// vm2 was escaped through nodejs.util.inspect.custom: its logger called the guest's function with host functions. Here the guest's own
// console calls it, with functions of the guest realm, which give no access to the host.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("a custom inspector", {
  source: `export default () => {
    const got = [];
    const custom = Symbol.for('nodejs.util.inspect.custom');
    console.log({ [custom](...args) {
      for (const arg of args) {
        if (typeof arg !== 'function') continue;
        if (!(arg instanceof Function) || arg.constructor !== Function) got.push('a function of another realm');
        let theirs = globalThis;
        try { theirs = arg.constructor('return this')(); } catch {}
        if (theirs !== globalThis) got.push('a global object of another realm');
      }
      got.push('called');
      return this;
    } });
    return got;
  };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual(["called"]),
});
