// Splitting of chunk frames: lines come back as sent, and invalid frames are rejected.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toRawChunks } from "../../../src/host/workers/process/chunk-lines.ts";
import { STREAM_WINDOW } from "../../../src/sandbox/protocol/guest-messages.ts";

const toParts = (...parts: readonly string[]): Buffer[] => parts.map((part) => Buffer.from(part));

describe("toRawChunks()", () => {
  test("returns any JSON texts that were sent as lines", () => {
    const texts = fc.array(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      {
        minLength: 1,
        maxLength: STREAM_WINDOW.chunks,
      },
    );
    fc.assert(
      fc.property(texts, (lines) => {
        const chunks = toRawChunks(toParts(lines.join("\n")));
        expect(chunks.map(({ text }) => text.toString())).toEqual(lines);
        expect(chunks.map(({ size }) => size)).toEqual(lines.map((line) => Buffer.byteLength(line)));
      }),
    );
  });

  test("keeps a large line as bytes", () => {
    const line = JSON.stringify("x".repeat(1e6));
    const [large, small] = toRawChunks(toParts(`${line}\n1`));
    expect(large?.text).toBeInstanceOf(Buffer);
    expect(small?.text).toBe("1");
  });

  test("returns one chunk for binary attachments, and reads them on demand", async () => {
    const [chunk, ...others] = toRawChunks(toParts('"m:0"', '{"mark":"m:","lengths":[2]}', "hi"));
    expect(others).toEqual([]);
    expect(chunk?.size).toBe(7);
    expect((await chunk?.bytes?.())?.parts.map(String)).toEqual(["104,105"].map(() => "hi"));
    const [forged] = toRawChunks(toParts('"m:0"', "nonsense", "hi"));
    expect(() => forged?.bytes?.()).toThrow("the binary attachments do not match their placeholders");
  });

  test.for([
    ["no parts", []],
    ["a header without bytes", ["1", "{}"]],
    ["too many parts", ["1", "{}", "", ""]],
    ["more lines than requested", ["\n".repeat(STREAM_WINDOW.chunks + 1)]],
  ] as const)("throws for %s", ([, parts]) => {
    expect(() => toRawChunks(toParts(...parts))).toThrow();
  });

  test("returns chunks or throws for arbitrary bytes", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array(), { maxLength: 4 }), (parts) => {
        try {
          for (const { size } of toRawChunks(parts.map((part) => Buffer.from(part))))
            expect(size).toBeGreaterThanOrEqual(0);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(Error);
        }
      }),
    );
  });
});
