// A tool replaces the intrinsics, which would forge its output if the prelude used them unprotected.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("replaced JSON, Array and Promise methods", {
  source: `const forged = () => '{"forged":true}';
JSON.stringify = forged; JSON.parse = forged; Object.keys = forged; Promise.prototype.then = forged; Array.prototype.join = forged; Object.prototype.toJSON = undefined;
export default () => ({ honest: [1, 2] });`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual({ honest: [1, 2] }),
});
