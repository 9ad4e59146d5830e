// Redactor: finds registered secrets in any chunks and any mixture of escapes, and keeps all other bytes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Redactor } from "../../../../src/host/observability/redaction/call-redactor.ts";
import { ToolError } from "../../../../src/sandbox/contract/errors.ts";
import { expectLinearTime } from "../../../support/processes.ts";

function redactorOf(...values: readonly string[]): Redactor {
  const redactor = new Redactor();
  values.forEach((value, index) => {
    redactor.addSecret(`K${index}`, value);
  });
  return redactor;
}

/** The parts that a filter passes on. */
function filtered(redactor: Redactor, parts: readonly Uint8Array[]): string {
  const filter = redactor.filter();
  return Buffer.concat([...parts.map((part) => filter.push(part)), filter.end()]).toString();
}

const VALUE = "key+Ab/9~é!";
const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, "0");
const percent = (sign: string): string => [...Buffer.from(sign)].map((byte) => `%${hex(byte, 2)}`).join("");
const unicode = (sign: string): string => `\\u${hex(sign.charCodeAt(0), 4)}`;
/** One character in all its escaped forms; é is escaped by its bytes in some and by its code in others. */
const WAYS: readonly ((sign: string) => string)[] = [
  (sign) => sign,
  percent,
  (sign) => percent(sign).replaceAll("%", "%25"),
];

describe("Redactor.filter()", () => {
  test("returns the same result for any chunks", () => {
    const pieces = fc.constantFrom(
      VALUE,
      VALUE.slice(0, 5),
      VALUE.slice(2),
      "k",
      "%",
      "\\",
      "&",
      "%2",
      "\\u00",
      " ",
      "x",
      "&#10",
      percent(VALUE),
      Buffer.from(VALUE).toString("base64"),
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), fc.array(fc.nat(40), { maxLength: 30 }), (texts, cuts) => {
        const bytes = Buffer.from(texts.join(""));
        const parts: Buffer[] = [];
        let from = 0;
        for (const length of cuts) {
          parts.push(bytes.subarray(from, from + length));
          from += length;
        }
        const redactor = redactorOf(VALUE);
        const cut = filtered(redactor, [...parts, bytes.subarray(from)]);
        expect(cut).toBe(redactor.text(bytes.toString()));
        expect(cut).not.toContain(VALUE);
      }),
    );
  });

  test("finds a value with a different escape for each character", () => {
    const ways = fc.array(fc.constantFrom(...WAYS), { minLength: VALUE.length, maxLength: VALUE.length });
    fc.assert(
      fc.property(ways, (chosen) => {
        const text = [...VALUE].map((sign, index) => chosen[index]?.(sign)).join("");
        expect(redactorOf(VALUE).text(`<${text}>`)).toBe("<[redacted:K0]>");
      }),
    );
    const escapes = [...VALUE].map((sign, index) => (index % 2 === 0 ? sign : unicode(sign))).join("");
    expect(redactorOf(VALUE).text(escapes)).toBe("[redacted:K0]");
  });

  test("keeps other bytes unchanged", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), (parts) => {
        const filter = redactorOf("a value that is not there").filter();
        const passed = Buffer.concat([...parts.map((part) => filter.push(part)), filter.end()]);
        expect(passed.equals(Buffer.concat(parts))).toBe(true);
      }),
    );
  });

  test("holds back only the possible start of a value", () => {
    const filter = redactorOf(VALUE).filter();
    expect(filter.push(Buffer.from("data: one\n\n")).toString()).toBe("data: one\n\n");
    expect(filter.push(Buffer.from("data: key+")).toString()).toBe("data: ");
    expect(filter.push(Buffer.from("chain")).toString()).toBe("key+chain");
    expect(filter.end().toString()).toBe("");
  });

  test("takes linear time for any text", () => {
    const redactor = redactorOf(`${"a".repeat(4_000)}b`);
    expectLinearTime((size) => redactor.text("a".repeat(size)), 30_000);
    expectLinearTime((size) => redactor.text("\\".repeat(3 * size) + "%25".repeat(size)), 6_000);
  });
});

describe("Redactor.conceal()", () => {
  test.for([["", "short", "7 bytes"], ["x".repeat(8_193)]].flat())("rejects a value of %#", (value) => {
    expect(() => redactorOf(value)).toThrow(ToolError);
  });

  test("accepts several values, one within another", () => {
    const redactor = redactorOf("first-value", "a-first-value-b", "second-value");
    expect(redactor.text("x a-first-value-b y second-value z first-value")).toBe(
      "x [redacted:K1] y [redacted:K2] z [redacted:K0]",
    );
  });

  test("keeps JSON valid: a number becomes a string", () => {
    const redactor = redactorOf("12345678");
    expect(redactor.json({ a: "12345678", b: 1 })).toEqual({ a: "[redacted:K0]", b: 1 });
    expect(redactor.json({ a: 12_345_678 })).toBe('{"a":[redacted:K0]}');
  });
});

describe("Redactor.filter() with several values", () => {
  const VALUES = ["first-value", "a-first-value-b", "b-second", "value-a-first"] as const;
  const pieces = fc.constantFrom(
    ...VALUES,
    "first-",
    "a-first-value",
    "value-b-seco",
    "x",
    "%62-second",
    "\\u0061-",
    "-b",
  );

  test("redacts all values, including overlapping ones, for any chunks", () => {
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 10 }), fc.integer({ min: 1, max: 9 }), (texts, length) => {
        const text = texts.join("");
        const parts = Array.from({ length: Math.ceil(text.length / length) }, (_, index) =>
          Buffer.from(text.slice(index * length, (index + 1) * length)),
        );
        const shown = filtered(redactorOf(...VALUES), parts);
        for (const value of VALUES) expect(shown).not.toContain(value);
        expect(shown.replaceAll(/\[redacted:K\d\]/g, "|")).toBe(
          redactorOf(...VALUES)
            .text(text)
            .replaceAll(/\[redacted:K\d\]/g, "|"),
        );
      }),
      { numRuns: 2_000 },
    );
  });

  test("reads each byte once, even if all bytes are held back and arrive one by one", () => {
    expectLinearTime((size) => {
      const filter = redactorOf(`${"ab".repeat(4_000)}c`).filter();
      for (let at = 0; at < size; at += 1) filter.push(Buffer.of(at % 2 === 0 ? 0x61 : 0x62));
    }, 10_000);
  });
});
