// isolated-vm reads a thrown error's fields outside its timeout, and no catastrophic event fires.
import { testAttack } from "../support.ts";

testAttack("an error whose message getter loops", {
  source: `export default async () => { throw { get message() { for (;;); }, get name() { for (;;); }, get stack() { for (;;); } }; };`,
  codes: ["TOOL_TIMEOUT"],
});
