// Bytes in JSON values: as text with marks and back, for any value; and as JSON for a model.
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

/** Text that may be taken for a mark, or for bytes in JSON. */
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

/** As it would come from the other side of a wire. */
async function overTheWire(value: ToolValue): Promise<ToolValue> {
  const { text, bytes: beside } = toTextWithBytes(value);
  if (text === undefined) throw new Error("Expected text");
  if (beside === undefined) return JSON.parse(text) as JsonValue;
  const [header, data] = toAttachmentParts(beside);
  const read = readAttachments(Buffer.from(header), Buffer.from(data), "It");
  return await withBytes(
    { value: JSON.parse(text) as JsonValue, units: text.length, beside: read, what: "It" },
    signal,
  );
}

describe("toTextWithBytes(), readAttachments() and withBytes()", () => {
  test("give any value back", async () => {
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
    ["a view into more", bytes(0, 1, 2, 3).subarray(1, 3), bytes(1, 2)],
    ["no bytes at all", bytes(), bytes()],
  ] as const)("%s", async ([, value, come]) => {
    expect(await overTheWire({ value } as unknown as ToolValue)).toStrictEqual({ value: come });
  });

  test("find bytes behind many other values", async () => {
    const value = [...Array.from({ length: 100 }, (_, n) => n), { deep: [[Buffer.from([7])]] }];
    expect(await overTheWire(value as ToolValue)).toStrictEqual([...value.slice(0, 100), { deep: [[bytes(7)]] }]);
  });

  test("ask an object only what JSON.stringify asks it", () => {
    const guarded = Object.defineProperty({ toJSON: () => "said" }, "secret", {
      enumerable: true,
      get: () => {
        throw new Error("asked");
      },
    });
    expect(toTextWithBytes([guarded])).toEqual({ text: '["said"]', bytes: undefined });
  });

  test("hand out memory with nothing else in it", async () => {
    const view = (await overTheWire([bytes(1, 2), bytes(3)])) as [Uint8Array, Uint8Array];
    expect(view.map(({ buffer }) => buffer.byteLength)).toEqual([2, 1]);
  });

  test("take much in turns, and stop with the signal", async () => {
    const value = { data: new Uint8Array(3_000_000).fill(7), rows: Array.from({ length: 50_000 }, (_, n) => [n]) };
    expect(await overTheWire(value)).toStrictEqual(value);
    const { text = "", bytes: beside } = toTextWithBytes(value);
    const parsed = { value: JSON.parse(text) as JsonValue, units: text.length, what: "It" };
    if (beside === undefined) throw new Error("Expected bytes");
    await expect(withBytes({ ...parsed, beside }, AbortSignal.abort(new Error("over")))).rejects.toThrow("over");
  });

  test("refuse what never came from them", () => {
    fc.assert(
      fc.property(fc.json(), fc.string(), fc.uint8Array(), (text, header, data) => {
        try {
          const beside = readAttachments(Buffer.from(header), Buffer.from(data), "It");
          void withBytes({ value: JSON.parse(text) as JsonValue, units: text.length, beside, what: "It" }, signal);
        } catch (thrown) {
          expect(thrown).toMatchObject({ code: "OUTPUT_INVALID" });
        }
      }),
    );
  });
});

describe("toJson()", () => {
  test("has base64 in the place of bytes, as text with marks has for a schema", () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        const { text, bytes: beside } = toTextWithBytes(value);
        const shown = beside === undefined ? text : withBase64(text ?? "", beside);
        expect(JSON.parse(shown ?? "")).toEqual(JSON.parse(JSON.stringify(toJson(value))));
      }),
    );
    expect(toJson({ a: bytes(104, 105), b: [1] })).toEqual({ a: "aGk=", b: [1] });
  });
});

test("sizeOfBytes() counts what is beside a text", () => {
  expect(sizeOfBytes(toTextWithBytes([bytes(1, 2), bytes(3)]).bytes)).toBe(3);
  expect(sizeOfBytes(undefined)).toBe(0);
});
