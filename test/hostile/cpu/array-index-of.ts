// Array builtins over a huge length check for no interrupt: neither timeout nor dispose() stops them, only SIGKILL.
import { testAttack } from "../support.ts";

testAttack("indexOf over 2 ** 53 - 1 holes", {
  source: `export default async () => { return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); };`,
  codes: ["TOOL_TIMEOUT"],
});
