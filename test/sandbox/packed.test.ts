// Byte strings packed into one.
import fc from "fast-check";
import { expect, test } from "vitest";
import { pack, unpack } from "../../src/sandbox/protocol/length-prefixed.ts";

test("unpack() gives back what pack() was given", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array()), (parts) => {
      expect(unpack(pack(parts)).map((part) => [...part])).toEqual(parts.map((part) => [...part]));
    }),
  );
});

test("unpack() gives what is whole of any bytes, and never throws", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const parts = unpack(bytes);
      expect(pack(parts).length).toBeLessThanOrEqual(bytes.length);
    }),
  );
});
