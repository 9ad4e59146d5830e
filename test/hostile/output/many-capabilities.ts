// The host sends the requested capabilities to the process at each start. A list that exceeds the protocol's limit must not end the process.
import { testAttack } from "../support.ts";

testAttack("a definition that requests 300 capabilities", {
  source: `export const capabilities = Object.fromEntries(Array.from({ length: 300 }, (_, n) => ["c" + n, true]));
    export default () => 1;`,
  codes: ["ok", "BUNDLE_FAILED"],
});
