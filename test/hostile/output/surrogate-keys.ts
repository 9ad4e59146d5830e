// Keys that are lone surrogates, noncharacters or byte order marks must stay distinct on the whole path.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("keys that are lone surrogates", {
  source: `export default () => { console.log('\\ufeffline'); return { '\\ud800': 1, '\\ud801': 2, '\\ufffd': 3, '\\ufeff': 4, '\\ufffe': 5, '\\u0000': 6, '': 7, '\\u2028': 8 }; };`,
  codes: ["ok"],
  check: (result) => {
    expect(Object.values(outputOf(result) as object).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(result.logs.map(({ message }) => message)).toEqual(["\ufeffline"]);
  },
});
