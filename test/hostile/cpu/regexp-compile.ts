// Compiling the pattern, not matching it, is the attack: nested counts multiply the generated code.
import { testAttack } from "../support.ts";

testAttack("a regular expression that is too much to compile", {
  source: `export default () => { for (let n = 0; ; n += 1) try { new RegExp('((((a{0,' + (90 + (n % 9)) + '}){0,90}){0,90}){0,90}b' + n).test('aaaaaaaaaaaaaaaaaaab'); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
