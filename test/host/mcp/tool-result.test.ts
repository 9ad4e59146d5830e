// Tests the conversion of a call's result to MCP's CallToolResult.
import { expect, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { ToolValue } from "../../../src/host/contract/tool-value.ts";
import { toCallToolResult } from "../../../src/host/mcp/server/tools/tool-result.ts";

const usage = {} as ToolResult["usage"];
const { signal } = new AbortController();
const CHART = { type: "text", text: "The chart:" } as const;

const succeed = (output: ToolValue): ToolResult =>
  ({ callId: "c1", toolName: "t", durationMs: 0, usage, logs: [], success: true, output, content: [CHART] }) as const;

test.for([
  ["a string", "12 points", "12 points"],
  ["a number", 12, "12"],
  ["a boolean", false, "false"],
  ["a list", [1, 2], "[1,2]"],
  ["bytes", new Uint8Array([1, 2, 3]), "AQID"],
] as const)("keeps an output next to content without an output schema: %s", async ([, output, text]) => {
  const result = await toCallToolResult(succeed(output as ToolValue), false, signal);
  expect(result.content).toEqual([CHART, { type: "text", text }]);
  expect(result).not.toHaveProperty("structuredContent");
});

test("repeats an object next to content as text", async () => {
  const result = await toCallToolResult(succeed({ points: 12 }), false, signal);
  expect(result).toMatchObject({
    content: [CHART, { type: "text", text: '{"points":12}' }],
    structuredContent: { points: 12 },
  });
});

test("adds no text to content without an output", async () => {
  expect(await toCallToolResult(succeed(null), false, signal)).toEqual({ content: [CHART] });
  expect(await toCallToolResult(succeed(null), true, signal)).toEqual({ content: [CHART], structuredContent: null });
});

test("serializes a large output in several turns of the event loop", async () => {
  const output = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`key${index}`, index]));
  const text = JSON.stringify(output);
  let turns = 0;
  const count = setInterval(() => {
    turns += 1;
  });
  const large = { ...succeed(output), usage: { ...usage, outputBytes: text.length } };
  const { content } = await toCallToolResult(large, false, signal);
  clearInterval(count);
  expect(content[1]).toEqual({ type: "text", text });
  expect(turns).toBeGreaterThan(1);
});
