// The tool's own output schema runs after execute, on the call's clock.
import { testAttack } from "../support.ts";

testAttack("an output schema whose validate never settles, then loops", {
  source: `export const outputSchema = { '~standard': { version: 1, vendor: 'evil', validate: (value) => ({ then(done) { Promise.resolve().then(() => { for (;;); }); } }) } };
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
});
