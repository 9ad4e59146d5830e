// Tests the parser of event streams: the HTML standard's rules for each line, in any pieces.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EventStreamParser, type StreamedEvent } from "../../../src/sandbox/contract/event-stream.ts";

function parse(...pieces: readonly string[]): readonly StreamedEvent[] {
  const parser = new EventStreamParser();
  return pieces.flatMap((piece) => parser.push(piece));
}
const short = (events: readonly StreamedEvent[]): readonly string[] =>
  events.map(({ type, data, lastEventId }) => `${type}|${data}|${lastEventId}`);

describe("an event stream", () => {
  test.for<[string, string, readonly string[]]>([
    ["one event", "data: a\n\n", ["message|a|"]],
    ["several lines of data", "data: a\ndata:b\ndata\n\n", ["message|a\nb\n|"]],
    ["one space after the colon is dropped", "data:  a\ndata:\n\n", ["message| a\n|"]],
    ["an event without data is dropped", "event: x\nid: 1\n\ndata: a\n\n", ["message|a|1"]],
    ["empty data is an event", "data\n\ndata:\n\n", ["message||", "message||"]],
    ["a name", "event: add\ndata: a\n\ndata: b\n\n", ["add|a|", "message|b|"]],
    ["the last name counts", "event: a\nevent: b\ndata: c\n\n", ["b|c|"]],
    ["ids last", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", ["message|a|1", "message|b|1", "message|c|"]],
    ["an id with a null is ignored", "id: 1\nid: a\0b\ndata: a\n\n", ["message|a|1"]],
    [
      "comments and unknown fields are ignored",
      ":data: x\n: \nfoo: 1\n data: x\ndata : x\nDATA: x\ndata: a\n\n",
      ["message|a|"],
    ],
    [
      "every line ending",
      "data: a\r\rdata: b\r\n\r\ndata: c\n\rdata: d\n\n",
      ["message|a|", "message|b|", "message|c|", "message|d|"],
    ],
    ["an incomplete event at the end is dropped", "data: a\n\ndata: b\n", ["message|a|"]],
    ["a field without a colon", "data\ndata\n\n", ["message|\n|"]],
    ["a colon in the value", "data: a: b\n\n", ["message|a: b|"]],
  ])("%s", ([, text, events]) => {
    expect(short(parse(text))).toEqual(events);
    expect(short(parse(...text))).toEqual(events);
  });

  test.for<[string, number | undefined]>([
    ["retry: 100\n", 100],
    ["retry: 100\nretry: 0\n", 0],
    ["retry: 2147483647\n", 2_147_483_647],
    ["retry: 2147483648\n", 2_147_483_647],
    [`retry: ${"9".repeat(400)}\n`, 2_147_483_647],
    ["retry: 1s\n", undefined],
    ["retry: -1\n", undefined],
    ["retry:  1\n", undefined],
    ["retry\n", undefined],
  ])("%j waits %s ms", ([text, ms]) => {
    const parser = new EventStreamParser();
    parser.push(text);
    expect(parser.retryMs).toBe(ms);
  });

  test("updates the last event id when the event ends", () => {
    const parser = new EventStreamParser("before");
    parser.push("id: after\ndata: a\n");
    expect(parser.lastEventId).toBe("before");
    parser.push("\n");
    expect(parser.lastEventId).toBe("after");
  });

  test("returns the same events for any pieces", () => {
    const line = fc.constantFrom(
      "data: a",
      "data",
      "event: x",
      "id: 1",
      "id",
      "retry: 5",
      ": comment",
      "",
      "data:b: c",
      "é😀",
    );
    const end = fc.constantFrom("\n", "\r", "\r\n");
    const stream = fc.array(fc.tuple(line, end)).map((lines) => lines.flat().join(""));
    fc.assert(
      fc.property(stream, fc.array(fc.nat(300)), (text, cuts) => {
        const ends = [...new Set([...cuts.map((cut) => Math.min(cut, text.length)), text.length])].sort(
          (a, b) => a - b,
        );
        const pieces = ends.map((to, index) => text.slice(ends[index - 1] ?? 0, to));
        const [whole, cut] = [new EventStreamParser(), new EventStreamParser()];
        const events = whole.push(text);
        expect(pieces.flatMap((piece) => cut.push(piece))).toEqual(events);
        expect([cut.retryMs, cut.lastEventId]).toEqual([whole.retryMs, whole.lastEventId]);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("the pending length", () => {
  test("counts the text of an event that is not complete, however it arrives", () => {
    const parser = new EventStreamParser();
    const lengths = ["data: abc", "d\n", "data: e\ndata\n", ": a comment\n", "id: 1\n", "\n", "data: x\n\n"].map(
      (piece) => {
        parser.push(piece);
        return parser.pendingLength;
      },
    );
    expect(lengths).toEqual([9, 5, 8, 8, 8, 0, 0]);
  });

  test("is at most the length of the text after the last event", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("data: a", "data", ":", "id: 1", "\n", "\r", "\r\n", "x")), (pieces) => {
        const parser = new EventStreamParser();
        let length = 0;
        for (const piece of pieces) {
          length = parser.push(piece).length > 0 ? 0 : length + piece.length;
          expect(parser.pendingLength).toBeLessThanOrEqual(length);
        }
      }),
    );
  });
});
