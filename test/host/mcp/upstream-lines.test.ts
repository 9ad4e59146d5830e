// Tests the lines of a server's stdout: complete lines are delivered unchanged, and lines over the limit are not kept.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { endsOf } from "../../../src/host/mcp/client/reading/bounded-bytes.ts";
import { LineReader } from "../../../src/host/mcp/client/reading/line-reader.ts";
import { answeredId } from "../../../src/host/mcp/client/reading/read-message.ts";

function readAll(reader: LineReader, pieces: readonly Buffer[]): (string | number)[] {
  return pieces
    .flatMap((piece) => [...reader.read(piece)])
    .map((line) => ("head" in line ? line.bytes : line.toString("latin1")));
}

describe("LineReader", () => {
  test("yields the lines of a text however it is split, and the length of lines over the limit", () => {
    const line = fc.string({ maxLength: 40, unit: fc.constantFrom("a", "é", "\r", "{") });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), fc.array(fc.nat(30), { maxLength: 60 }), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(""), "latin1");
        const pieces: Buffer[] = [];
        let at = 0;
        for (const cut of cuts) {
          pieces.push(bytes.subarray(at, at + cut));
          at += cut;
        }
        pieces.push(bytes.subarray(at));
        expect(readAll(new LineReader({ maxBytes: 16 }), pieces)).toEqual(
          lines.map((each) => (each.length > 16 ? each.length : each)),
        );
      }),
    );
  });

  test("earlier lines do not change while later ones are read", () => {
    const reader = new LineReader({ maxBytes: 1_000 });
    const found = ["one\ntw", "o\nthr", "ee\n"].flatMap((text) => [...reader.read(Buffer.from(text))]);
    expect(found.map(String)).toEqual(["one", "two", "three"]);
  });

  test("keeps a KiB of a line without an end, and its length", () => {
    const reader = new LineReader({ maxBytes: 64 * 1024 });
    const piece = Buffer.alloc(64 * 1024, "x");
    for (let index = 0; index < 100; index += 1) expect([...reader.read(piece)]).toEqual([]);
    expect(reader.openBytes).toBe(100 * piece.length);
    const [line] = [...reader.read(Buffer.from("end\nnext"))];
    expect(line).toMatchObject({ bytes: 100 * piece.length + 3 });
    expect("head" in (line ?? []) && (line as { tail: Buffer }).tail.toString()).toMatch(/^x{509}end$/);
    expect(readAll(reader, [Buffer.from(" line\n")])).toEqual(["next line"]);
  });

  test("a million pieces of one byte take no more memory than their line", () => {
    const reader = new LineReader({ maxBytes: 1024 * 1024 });
    const byte = Buffer.from("x");
    for (let index = 0; index < 1_000_000; index += 1) for (const _ of reader.read(byte)) throw new Error("a line");
    expect(readAll(reader, [Buffer.from("\n")])[0]).toHaveLength(1_000_000);
  });
});

describe("answeredId()", () => {
  const idOf = (text: string): string | number | undefined => answeredId(endsOf(Buffer.from(text)));
  const long = "x".repeat(2_000);
  test.for<[string, string | number | undefined]>([
    [`{"jsonrpc":"2.0","id":7,"result":{"a":"${long}"}}`, 7],
    [`{"jsonrpc":"2.0","id":"seven","result":{"a":"${long}"}}`, "seven"],
    [`{"id" : 7 , "error":{"a":"${long}"}}`, 7],
    [`{"result":{"a":"${long}"},"jsonrpc":"2.0","id":7}`, 7],
    [`{"jsonrpc":"2.0","result":{"a":"${long}"},"id":7}\r`, 7],
    [`{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"${long}"}}`, undefined],
    [`{"method":"x","params":{"a":"${long}"},"jsonrpc":"2.0","id":7}`, undefined],
    [`{"jsonrpc":"2.0","method":"x","params":{"a":"${long}"}}`, undefined],
    [`{"jsonrpc":"2.0","id":{"a":1},"result":"${long}"}`, undefined],
    [`{"jsonrpc":"2.0","id":99999999999999999999,"result":"${long}"}`, undefined],
    [long, undefined],
  ])("%#", ([text, id]) => {
    expect(idOf(text), text.slice(0, 60)).toBe(id);
  });
});
