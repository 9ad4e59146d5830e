// Every read of the result runs a trap.
import { testAttack } from "../support.ts";

testAttack("a result that is a proxy whose traps loop", {
  source: `export default async () => { return new Proxy({}, { ownKeys() { for (;;); }, get: () => undefined }); };`,
  codes: ["TOOL_TIMEOUT"],
});
