// Temporal objects are native objects with their own memory.
import { testAttack } from "../support.ts";

testAttack("Temporal objects, kept", {
  source: `export default () => { const all = []; const zone = Temporal.ZonedDateTime.from('2026-01-01T00:00[America/New_York]'); for (let n = 0; ; n += 1) all.push(zone.add({ hours: n % 9999 }), Temporal.Duration.from({ nanoseconds: n })); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
