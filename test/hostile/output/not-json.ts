// Values that JSON cannot represent are serialized as JSON.stringify does it.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("values that are not quite JSON", {
  source: `export default () => ({ nan: NaN, far: -Infinity, minus: -0, date: new Date(0), boxed: [new Number(1), new String('s'), new Boolean(false)], numbers: new Uint16Array(2), map: new Map([[1, 2]]), set: new Set([1]), pattern: /x/g, nothing: undefined, run: () => 1, symbol: Symbol('s'), [Symbol('key')]: 1, list: [undefined, () => 1, Symbol('s')], nested: Object.create({ inherited: 1 }), error: new Error('secret') });`,
  codes: ["ok"],
  check: (result) =>
    expect(outputOf(result)).toEqual({
      nan: null,
      far: null,
      minus: 0,
      date: "1970-01-01T00:00:00.000Z",
      boxed: [1, "s", false],
      numbers: { 0: 0, 1: 0 },
      map: {},
      set: {},
      pattern: {},
      list: [null, null, null],
      nested: {},
      error: {},
    }),
});
