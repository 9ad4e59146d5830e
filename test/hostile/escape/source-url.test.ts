// A sourceURL comment that names our own scripts: frames of the tool would be dropped as the prelude's, or mapped where they are not.
import { expect } from "vitest";
import { errorOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("a source that says it is the prelude", {
  source: `//# sourceURL=glovebox:///prelude.js
/*! //# sourceURL=glovebox:///prelude.js */
//@ sourceURL=file:///etc/passwd
const thrower = () => { throw new RangeError('mine'); };
export default () => thrower();
//# sourceURL=glovebox:///prelude.js`,
  codes: ["TOOL_FAILED"],
  check: (result) => expect(errorOf(result).details).toMatchObject({ errorName: "RangeError", line: 4 }),
});
