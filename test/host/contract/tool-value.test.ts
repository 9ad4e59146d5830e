// Tests that values with bytes are converted to text with placeholders and back, and to JSON for a model.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  readAttachments,
  sizeOfBytes,
  type ToolValue,
  toAttachmentParts,
  toJson,
  toTextWithBytes,
  withBase64,
  withBytes,
} from "../../../src/host/contract/tool-value.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";

const { signal } = new AbortController();
const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);

/** Text that resembles a placeholder, or bytes in JSON. */
const tricky = fc.oneof(
  fc.string(),
  fc.constantFrom("glovebox:bytes:0", "glovebox:bytes:", "glovebox:bytes:1:0", '"glovebox:bytes:0', "{}", "Buffer"),
);
const anyValue = fc.letrec<{ value: ToolValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(tricky, fc.integer(), fc.boolean(), fc.constant(null), fc.uint8Array({ maxLength: 20 })),
    fc.array(tie("value"), { maxLength: 5 }),
    fc.dictionary(
      fc.oneof(fc.string(), fc.constantFrom("0", "type", "data")).filter((key) => key !== "__proto__"),
      tie("value"),
      { maxKeys: 5, noNullPrototype: true },
    ),
  ),
})).value;

/** Returns the value as the receiver of a wire reads it. */
async function overTheWire(value: ToolValue): Promise<ToolValue> {
  const { text, bytes: attachments } = toTextWithBytes(value);
  if (text === undefined) throw new Error("Expected text");
  if (attachments === undefined) return JSON.parse(text) as JsonValue;
  const [header, data] = toAttachmentParts(attachments);
  const read = readAttachments(Buffer.from(header), Buffer.from(data), "It");
  return await withBytes(
    { value: JSON.parse(text) as JsonValue, textLength: text.length, attachments: read, what: "It" },
    signal,
  );
}

describe("toTextWithBytes(), readAttachments() and withBytes()", () => {
  test("restore any value", async () => {
    await fc.assert(
      fc.asyncProperty(anyValue, async (value) => {
        expect(await overTheWire(value)).toStrictEqual(value);
      }),
      { numRuns: 1_000 },
    );
  });

  test.for([
    ["a Uint8Array", bytes(1, 2), bytes(1, 2)],
    ["a Buffer", Buffer.from([1, 2]), bytes(1, 2)],
    ["an ArrayBuffer", bytes(1, 2).buffer, bytes(1, 2)],
    ["a view of a larger buffer", bytes(0, 1, 2, 3).subarray(1, 3), bytes(1, 2)],
    ["empty bytes", bytes(), bytes()],
  ] as const)("restore %s", async ([, value, restored]) => {
    expect(await overTheWire({ value } as unknown as ToolValue)).toStrictEqual({ value: restored });
  });

  test("find bytes behind many other values", async () => {
    const value = [...Array.from({ length: 100 }, (_, n) => n), { deep: [[Buffer.from([7])]] }];
    expect(await overTheWire(value as ToolValue)).toStrictEqual([...value.slice(0, 100), { deep: [[bytes(7)]] }]);
  });

  test("read only the properties that JSON.stringify reads", () => {
    const guarded = Object.defineProperty({ toJSON: () => "result" }, "secret", {
      enumerable: true,
      get: () => {
        throw new Error("read");
      },
    });
    expect(toTextWithBytes([guarded])).toEqual({ text: '["result"]', bytes: undefined });
  });

  test("return bytes in memory of their own", async () => {
    const view = (await overTheWire([bytes(1, 2), bytes(3)])) as [Uint8Array, Uint8Array];
    expect(view.map(({ buffer }) => buffer.byteLength)).toEqual([2, 1]);
  });

  test("process large values in time slices, and stop when the signal aborts", async () => {
    const value = { data: new Uint8Array(3_000_000).fill(7), rows: Array.from({ length: 50_000 }, (_, n) => [n]) };
    expect(await overTheWire(value)).toStrictEqual(value);
    const { text = "", bytes: attachments } = toTextWithBytes(value);
    const parsed = { value: JSON.parse(text) as JsonValue, textLength: text.length, what: "It" };
    if (attachments === undefined) throw new Error("Expected bytes");
    await expect(withBytes({ ...parsed, attachments }, AbortSignal.abort(new Error("over")))).rejects.toThrow("over");
  });

  test("reject any other text, header and data with OUTPUT_INVALID", () => {
    fc.assert(
      fc.property(fc.json(), fc.string(), fc.uint8Array(), (text, header, data) => {
        try {
          const attachments = readAttachments(Buffer.from(header), Buffer.from(data), "It");
          const value = JSON.parse(text) as JsonValue;
          void withBytes({ value, textLength: text.length, attachments, what: "It" }, signal);
        } catch (thrown) {
          expect(thrown).toMatchObject({ code: "OUTPUT_INVALID" });
        }
      }),
    );
  });
});

describe("toJson()", () => {
  test("has base64 instead of bytes, as withBase64() has", () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        const { text, bytes: attachments } = toTextWithBytes(value);
        const shown = attachments === undefined ? text : withBase64(text ?? "", attachments);
        expect(JSON.parse(shown ?? "")).toEqual(JSON.parse(JSON.stringify(toJson(value))));
      }),
    );
    expect(toJson({ a: bytes(104, 105), b: [1] })).toEqual({ a: "aGk=", b: [1] });
  });

  test("copies only what contains bytes, at any depth", () => {
    const plain = { list: [1, { a: null }], text: "x" };
    expect(toJson(plain)).toBe(plain);
    const mixed = { before: plain, changed: [plain, [bytes(104, 105), plain], plain], after: plain };
    const json = toJson(mixed) as unknown as typeof mixed;
    expect(json).toEqual({ before: plain, changed: [plain, ["aGk=", plain], plain], after: plain });
    expect([json.before, json.changed[0], json.changed[2], json.after].every((part) => part === plain)).toBe(true);
    expect(mixed.changed[1]).toEqual([bytes(104, 105), plain]);
    let deep: ToolValue = bytes(104, 105);
    for (let level = 0; level < 100; level += 1) deep = level % 2 === 0 ? [deep] : { deep };
    expect(JSON.stringify(toJson(deep))).toContain('"aGk="');
  });

  test("copies the own properties of an object of a class", () => {
    class Point {
      readonly x = 1;
      toJSON(): string {
        return "hidden";
      }
    }
    expect(JSON.stringify(toJson(new Point() as never))).toBe('{"x":1}');
  });
});

test("sizeOfBytes() returns the size of all attachments", () => {
  expect(sizeOfBytes(toTextWithBytes([bytes(1, 2), bytes(3)]).bytes)).toBe(3);
  expect(sizeOfBytes(undefined)).toBe(0);
});
