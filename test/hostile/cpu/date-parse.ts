// V8's legacy date parser reads a text of any length without an interrupt.
import { testAttack } from "../support.ts";

testAttack("dates of megabytes, parsed without end", {
  source: `export default () => { const text = '(('.repeat(2e6) + '1 Jan 2000'; for (;;) { Date.parse(text); Date.parse('1 '.repeat(1e6)); } };`,
  codes: ["TOOL_TIMEOUT"],
});
