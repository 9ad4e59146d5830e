// A call as the server responds with it: the JSON texts of its input and output become parts of the response, without being parsed.
import { expect, test } from "vitest";
import { writeOutput } from "../../src/server/calls/call-results.ts";
import { toCallRecord, writeCallRecord } from "../../src/server/records/calls/calls.ts";
import { endedRow } from "./support/call-row.ts";

test("a call as text has the members of its record, and further ones", () => {
  for (const row of [
    endedRow(1, { input: '{"a":"\\u2028\\"}"}', output: '[{"__proto__":1},"x"]', error: null }),
    endedRow(2, { input: null, output: null, error: '{"code":"TOOL_FAILED"}' }),
  ])
    expect(JSON.parse(writeCallRecord(row, { logs: [1] }))).toEqual({ ...toCallRecord(row), logs: [1] });
});

test("a large output is written as a small one is, over several turns of the event loop", async () => {
  const bytes = new TextEncoder().encode("hi");
  const large = Array.from({ length: 100_000 }, (_, at) => ({ [`key${at}`]: [at, null, "é\u2028"], bytes }));
  const write = (output: unknown, outputBytes: number): Promise<string | null> =>
    writeOutput({ success: true, output, usage: { outputBytes } } as never);
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 0);
  const text = await write(large, 4_000_000);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(1);
  expect(text).toBe(await write(large, 1_000));
  expect(text?.startsWith('[{"key0":[0,null,"é\u2028"],"bytes":"aGk="}')).toBe(true);
  expect(await writeOutput({ success: false } as never)).toBe(null);
});
