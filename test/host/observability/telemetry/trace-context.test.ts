// W3C Trace Context: valid and invalid traceparent headers.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseTraceparent, toTraceContext } from "../../../../src/host/observability/telemetry/trace-context.ts";

const hex = (digits: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: digits, maxLength: digits });
const id = (digits: number): fc.Arbitrary<string> => hex(digits).filter((text) => /[^0]/.test(text));

describe("parseTraceparent()", () => {
  test("parses its own output", () => {
    fc.assert(
      fc.property(id(32), id(16), fc.constantFrom(0, 1), (traceId, spanId, traceFlags) => {
        const { traceparent = "" } = toTraceContext({ traceId, spanId, traceFlags });
        expect(parseTraceparent(traceparent)).toEqual({ traceId, spanId, traceFlags });
      }),
    );
  });

  test("parses any text without throwing, with a well-formed result", () => {
    const near = fc
      .tuple(hex(2), hex(32), hex(16), hex(2), fc.string({ maxLength: 4 }))
      .map((parts) => parts.join("-"));
    fc.assert(
      fc.property(fc.oneof(near, fc.string()), (text) => {
        const parsed = parseTraceparent(text);
        if (parsed === undefined) return;
        expect(parsed.traceId).toMatch(/^(?!0{32})[0-9a-f]{32}$/);
        expect(parsed.spanId).toMatch(/^(?!0{16})[0-9a-f]{16}$/);
      }),
    );
  });

  const TRACE = "0af7651916cd43dd8448eb211c80319c";
  const SPAN = "b7ad6b7169203331";
  test.for<[string, boolean]>([
    [`00-${TRACE}-${SPAN}-01`, true],
    [`00-${TRACE}-${SPAN}-ff`, true],
    [`cc-${TRACE}-${SPAN}-01-what-comes-later`, true],
    [`00-${TRACE}-${SPAN}-01-more`, false],
    [`ff-${TRACE}-${SPAN}-01`, false],
    [`00-${"0".repeat(32)}-${SPAN}-01`, false],
    [`00-${TRACE}-${"0".repeat(16)}-01`, false],
    [`00-${TRACE.toUpperCase()}-${SPAN}-01`, false],
    [`00-${TRACE}-${SPAN}`, false],
    [` 00-${TRACE}-${SPAN}-01`, false],
    ["", false],
  ])("%s: %j", ([text, is]) => expect(parseTraceparent(text) !== undefined).toBe(is));
});
