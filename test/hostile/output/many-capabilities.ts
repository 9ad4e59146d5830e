// What a tool asks for is told to its process at each start: a list past what the protocol carries must not end that process.
import { testAttack } from "../support.ts";

testAttack("a definition that asks for 300 capabilities", {
  source: `export const capabilities = Object.fromEntries(Array.from({ length: 300 }, (_, n) => ["c" + n, true]));
    export default () => 1;`,
  codes: ["ok", "BUNDLE_FAILED"],
});
