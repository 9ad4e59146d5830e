// JSON.rawJSON writes any number into an output. A number that exceeds every double would be parsed as Infinity, which JSON cannot represent.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("a number of a thousand digits and one past every double", {
  source: `export default () => [JSON.rawJSON('1e400'), JSON.rawJSON('-1e400'), JSON.rawJSON('1' + '0'.repeat(1_000))];`,
  codes: ["ok", "OUTPUT_INVALID"],
  check: (result) => {
    if (result.success) expect(JSON.stringify(outputOf(result))).not.toContain("null");
  },
});
