// Exponential backtracking of a regular expression.
import { testAttack } from "../support.ts";

testAttack("a regular expression that backtracks without end", {
  source: `export default async () => { return /^(a+)+$/.test('a'.repeat(60) + 'b'); };`,
  codes: ["TOOL_TIMEOUT"],
});
