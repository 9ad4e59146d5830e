// Awaiting a result calls its then().
import { testAttack } from "../support.ts";

testAttack("a result whose then loops", {
  source: `export default () => ({ get then() { for (;;); } });`,
  codes: ["TOOL_TIMEOUT"],
});
