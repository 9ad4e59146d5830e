// A sourceURL comment that names an internal script. Frames of the tool would then be dropped or mapped to the wrong source.
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
