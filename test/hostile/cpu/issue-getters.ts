// Issues are objects of the schema library: reading a path or a message may loop.
import { testAttack } from "../support.ts";

testAttack("issues whose parts are getters that loop", {
  source: `export const inputSchema = { '~standard': { version: 1, vendor: 'evil', validate: () => ({ issues: [{ get message() { for (;;); }, path: [{ get key() { for (;;); } }] }] }) } };
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
});
