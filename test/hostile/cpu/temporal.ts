// Temporal is new native code. Rounds and divides dates at the ends of its range in an endless loop.
import { testAttack } from "../support.ts";

testAttack("Temporal at the ends of time", {
  source: `export default () => { const first = new Temporal.PlainDate(-271821, 4, 19); const last = new Temporal.PlainDate(275760, 9, 13); for (;;) for (const largestUnit of ['day', 'week', 'month', 'year']) try { const span = first.until(last, { largestUnit }); span.round({ relativeTo: first, largestUnit, smallestUnit: 'month', roundingIncrement: 1 }); span.total({ unit: 'nanoseconds', relativeTo: last.toZonedDateTime('America/Sao_Paulo') }); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
