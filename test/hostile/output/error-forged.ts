// A guest chooses its own words; a code of ours is not among what it can choose.
import { testAttack } from "../support.ts";

testAttack("an error that says it is ours", {
  source: `export default async () => { throw Object.assign(new Error('Script execution timed out.'), { name: 'ToolError', code: 'INTERNAL', recoverable: true, guestStack: 'at host (/srv/app/x.ts:1:1)', details: { a: 1 } }); };`,
  codes: ["TOOL_FAILED"],
});
