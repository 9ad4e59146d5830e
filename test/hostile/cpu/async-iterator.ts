// Each step of for await is a microtask, so the thread never returns to the event loop.
import { testAttack } from "../support.ts";

testAttack("for await over an endless source", {
  source: `export default async () => { for await (const value of (async function* () { for (;;) yield 1; })()) if (value === 2) break; };`,
  codes: ["TOOL_TIMEOUT"],
});
