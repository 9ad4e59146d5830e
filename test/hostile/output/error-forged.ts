// A guest may set any error code of its own, but not an error code of Glovebox.
import { testAttack } from "../support.ts";

testAttack("an error that claims to come from Glovebox", {
  source: `export default async () => { throw Object.assign(new Error('Script execution timed out.'), { name: 'ToolError', code: 'INTERNAL', recoverable: true, guestStack: 'at host (/srv/app/x.ts:1:1)', details: { a: 1 } }); };`,
  codes: ["TOOL_FAILED"],
});
