// Tests of joining byte strings with length prefixes.
import fc from "fast-check";
import { expect, test } from "vitest";
import { pack, unpack } from "../../src/sandbox/protocol/length-prefixed.ts";

test("unpack() returns the parts given to pack()", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array()), (parts) => {
      expect(unpack(pack(parts)).map((part) => [...part])).toEqual(parts.map((part) => [...part]));
    }),
  );
});

test("unpack() returns the complete parts of any bytes and never throws", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const parts = unpack(bytes);
      expect(pack(parts).length).toBeLessThanOrEqual(bytes.length);
    }),
  );
});
