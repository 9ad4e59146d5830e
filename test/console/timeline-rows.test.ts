// The rows of a timeline: what is below what.
import { expect, test } from "vitest";
import { type Span, toRows } from "../../src/console/parts/timeline/timeline-rows.ts";

const span = (name: string, startMs: number, durationMs: number, kind: Span["kind"] = "tool"): Span => ({
  kind,
  name,
  startMs,
  durationMs,
  code: "ok",
});
const depths = (...spans: Span[]): readonly string[] =>
  toRows(spans, [], new Set(), { depth: 0, offsetMs: 0, path: "" }).map(
    ({ depth, span: { name } }) => `${depth} ${name}`,
  );

test("short spans that follow each other are at the same depth", () => {
  expect(
    depths(
      span("execute", 3, 90, "execute"),
      span("one", 19.929, 0.062),
      span("two", 20.023, 0.016),
      span("three", 20.039, 0.014),
      span("kv", 20.06, 0.03, "capability"),
    ),
  ).toEqual(["0 execute", "1 one", "1 two", "1 three", "1 kv"]);
});

test("what happens within a span is below it, with room for times of two clocks", () => {
  expect(
    depths(
      span("execute", 3, 90, "execute"),
      span("outer", 10, 5),
      span("inner", 11, 1),
      span("kv", 11.5, 0.54, "capability"),
      span("late", 12.2, 2.83, "capability"),
      span("after", 15.1, 1),
    ),
  ).toEqual(["0 execute", "1 outer", "2 inner", "3 kv", "2 late", "1 after"]);
});
