// A tool's own schema runs inside its isolate, on the call's clock.
import { testAttack } from "../support.ts";

testAttack("a Standard Schema whose validate loops", {
  source: `export const inputSchema = { '~standard': { version: 1, vendor: 'evil', validate() { for (;;); } } };
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
});
