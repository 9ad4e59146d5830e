// The prelude's encoder and decoder over megabytes, in an endless loop.
import { testAttack } from "../support.ts";

testAttack("TextEncoder and TextDecoder over megabytes", {
  source: `export default () => { const text = '\\ud83d\\ude00\\u00e9a'.repeat(5e5); for (;;) new TextDecoder('utf-16le').decode(new TextEncoder().encode(text)); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
