// Arrays with own properties, holes, another prototype, or a false length.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("arrays that are not just arrays", {
  source: `export default () => { const list = Object.assign([1, , 3], { extra: 1, '-1': 2, '4294967295': 3 }); Object.setPrototypeOf(list, { toJSON: undefined, length: 99, map: 1 }); class Lying extends Array { get length() { return 2 ** 40; } } return [list, Lying.of(1, 2), new Proxy([1, 2], {})]; };`,
  codes: ["ok", "OUTPUT_INVALID", "TOOL_FAILED"],
  check: (result) => {
    if (result.success)
      expect(outputOf(result)).toEqual([
        [1, null, 3],
        [1, 2],
        [1, 2],
      ]);
  },
});
