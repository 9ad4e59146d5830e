// Properties of a thrown error must not be walked: its causes never end, and its fields are getters that loop.
import { testAttack } from "../support.ts";

testAttack("an error whose causes and errors loop", {
  source: `export default () => { const errors = []; Object.defineProperty(errors, '0', { enumerable: true, get() { for (;;); } }); const error = new AggregateError([], 'many'); Object.defineProperty(error, 'errors', { get() { for (;;); } }); Object.defineProperty(error, 'cause', { get() { for (;;); } }); throw error; };`,
  codes: ["TOOL_FAILED", "TOOL_TIMEOUT"],
});
